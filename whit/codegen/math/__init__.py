"""What exp2, log2, sin ... are in ops that every target has: `expand` has the rules, the others their parts."""
