"""Traces: what is written, what is kept, and what is read again."""
