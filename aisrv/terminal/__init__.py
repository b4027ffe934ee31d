"""Command lines: groups of commands and options, sizes, progress."""
