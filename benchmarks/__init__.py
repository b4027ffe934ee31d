"""Measurements of the device; `python -m benchmarks` runs them."""
