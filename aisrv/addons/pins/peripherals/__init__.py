"""Peripherals on a tile's pins, one module each: tasks that wait for edges, check their timing, and drive."""
