"""A run as a folder: what was planned, what each example became, and the figures."""
