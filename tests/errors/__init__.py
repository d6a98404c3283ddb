"""Messages: one test for each mistake in the catalogue."""
