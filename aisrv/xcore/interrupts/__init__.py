"""Interrupts of cores."""
