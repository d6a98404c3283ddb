"""What the repository says of itself: releases, workflows, the map of files, and rules that no linter has."""
