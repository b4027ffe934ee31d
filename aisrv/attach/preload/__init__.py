"""Devices for any dynamically linked program, through umockdev's preloaded library."""
