"""Many elements into few."""
