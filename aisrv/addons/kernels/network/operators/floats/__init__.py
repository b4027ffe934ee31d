"""Operators of float32, computed by NumPy, or by a backend that takes them."""
