"""Checks of the code base itself, which `make lint` runs."""
