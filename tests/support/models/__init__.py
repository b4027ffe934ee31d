"""Models and networks for tests, each made by a seed."""
