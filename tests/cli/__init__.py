"""The command line: what it prints, and what it refuses."""
