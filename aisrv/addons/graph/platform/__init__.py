"""Platforms of graphs: their manifests, and the one that comes with the package."""
