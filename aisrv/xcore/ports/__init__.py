"""Ports, their clock blocks and pins."""
