"""The scheduler: what is fused, and that it stays what it was."""
