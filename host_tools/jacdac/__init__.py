"""A Jacdac bus on the host: a connection to it, and its frames in words."""
