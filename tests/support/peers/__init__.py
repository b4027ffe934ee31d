"""Peers of tests: hosts, servers and tools by others, and how they are run."""
