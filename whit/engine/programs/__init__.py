"""Traced graphs made ready to run again and again: what waits for what, and native calls for all of it."""
