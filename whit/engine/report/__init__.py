"""What ran, and why so: counters, profiles, explanations, rooflines, what DEBUG prints."""
