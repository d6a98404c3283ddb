"""Rules of algebra: right on random values, and each makes expressions smaller."""
