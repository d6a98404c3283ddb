"""`whit.numpy` against the standard, and in the hands of other libraries."""
