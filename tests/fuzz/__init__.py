"""Random tensor graphs through the whole compiler, compared with the interpreter."""
