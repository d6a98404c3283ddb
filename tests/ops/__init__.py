"""The table of ops: meaning, bounds and expansions."""
