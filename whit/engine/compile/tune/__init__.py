"""The search for a faster tiling of a kernel.

`search` tries what `codegen.strategy.variants` lists, on memory of its own (`alone`), after it was compared with a
reference (`check`); what it finds is kept on disk (`store`) and used from then on.
"""
