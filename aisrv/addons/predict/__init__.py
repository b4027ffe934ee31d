"""Analyses of a model without a device: profiles, plans, comparisons of engines."""
