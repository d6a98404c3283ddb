"""What starts programs: memory, threads, launches."""
