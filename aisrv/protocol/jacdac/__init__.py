"""What crosses a Jacdac bus, as values: frames, formats of values, and the tables of services."""
