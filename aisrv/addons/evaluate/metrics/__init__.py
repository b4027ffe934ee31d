"""Figures of how right answers are, each with its interval of 95 %."""
