"""The backend on NumPy."""
