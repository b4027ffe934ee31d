"""Implementations of the operators' arithmetic, chosen by name."""
