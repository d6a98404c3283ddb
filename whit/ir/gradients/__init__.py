"""Reverse mode: a rule for each op (`rules`), and what stores and reads of memory need besides (`effects`)."""
