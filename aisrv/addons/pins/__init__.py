"""Pins."""
