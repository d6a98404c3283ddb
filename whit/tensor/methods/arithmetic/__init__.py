"""Operators, elementwise: arithmetic, comparison, bits, choice."""
