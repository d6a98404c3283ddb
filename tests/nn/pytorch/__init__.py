"""Expressions that mean the same in PyTorch and here: tables of them, and what PyTorch gives, in files."""
