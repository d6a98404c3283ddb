"""Which values are stored in memory, and which are computed where they are read."""
