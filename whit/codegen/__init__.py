"""A kernel and a target become a linear program."""
