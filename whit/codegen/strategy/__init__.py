"""How a kernel is tiled, as data: `choice` is the record, `apply` and `panels` build it, `cost` estimates it,
`variants` lists what a search may try.
"""
