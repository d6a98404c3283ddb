"""Data in and out, and writing: what a tensor is built from, what it gives, what it becomes."""
