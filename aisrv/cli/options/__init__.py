"""Groups of command-line options."""
