"""Interrupts."""
