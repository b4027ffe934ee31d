"""What the three commands share at the terminal: groups of commands, sizes, progress."""
