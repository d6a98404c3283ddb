"""Values of graphs in memory: `realize` is the way there, `parametrise` finds what is known already under a key."""
