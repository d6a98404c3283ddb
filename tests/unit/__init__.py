"""The foundation and the language of graphs. Needs no device."""
