"""Operators of float32, computed by NumPy."""
