"""Benches: devices, nodes and engines set up for tests."""
