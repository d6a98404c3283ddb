"""Checks: of nodes when they are made (`nodes`), of graphs after a stage (`verify`), of rules (`rules`)."""
