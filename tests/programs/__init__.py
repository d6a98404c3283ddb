"""Programs of other libraries, run with the import changed."""
