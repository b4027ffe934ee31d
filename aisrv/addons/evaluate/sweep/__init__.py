"""Sweeps: models on boards by clock, threads, arena and memory, how fast and how right, and the best of them.

Latency is predicted for each cell, accuracy measured once for each model: it does not depend on the board.
"""
