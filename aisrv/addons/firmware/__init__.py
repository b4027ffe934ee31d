"""Firmware in C: programs of the user's, compiled for this machine, as cores of a node's tiles."""
