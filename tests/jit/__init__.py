"""`TinyJit`: captured functions compute what they would without it."""
