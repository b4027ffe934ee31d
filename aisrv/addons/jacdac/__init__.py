"""Jacdac."""
