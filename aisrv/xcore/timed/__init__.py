"""Timed."""
