"""The flash chip: its commands, its content, its programmers."""
