"""Oracles: what must come out, by other implementations or by the rules alone."""
