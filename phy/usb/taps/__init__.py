"""Ports put between host and device: captures, faults."""
