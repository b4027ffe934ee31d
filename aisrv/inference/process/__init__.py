"""Interpreters in processes of their own, and inline."""
