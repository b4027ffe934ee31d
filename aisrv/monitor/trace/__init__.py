"""Traces of running devices in Perfetto's format: written as they run, and summed up afterwards."""
