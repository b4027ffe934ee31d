"""Channels: ends, verbs, routes, and what crosses them."""
