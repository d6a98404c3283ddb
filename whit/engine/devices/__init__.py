"""Devices by name (`device`), one file for each kind, and memory shared with files and other libraries."""
