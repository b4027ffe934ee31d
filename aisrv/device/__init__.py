"""The composition root: a running device, built from a board."""
