"""A client of USB/IP servers."""
