"""Graphs as text: written (`write`, arguments by `spell`), read (`parse`, `parse_line`), and compared (`diff`)."""
