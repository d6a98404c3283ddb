"""The kernel diff: two checkouts schedule, generate and render the same corpus, and their kernels are compared.

    make replay                                     the working tree against main
    make replay ARGS="--against HEAD~3 --all"       against another commit, the whole corpus

One file for each step: `corpus` (what is compared: graphs that tests have scheduled, and `programs`), `checkouts`
(where the sources of a commit are), `drive` (runs inside one checkout), `run` (drivers in parallel), `store` (what is
known already), `compare` (which kernels differ), `report` (for people). `record` is a plugin of pytest, which makes the
corpus again. Nothing here imports whit but `drive` and `record`, so that any two checkouts can be compared.
"""
