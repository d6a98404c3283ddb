"""A schedule made ready to run: which memory each call gets. The other files prove that it is right (CHECK_PLAN)."""
