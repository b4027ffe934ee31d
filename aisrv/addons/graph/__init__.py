"""Graphs of stream-processing nodes: sensors, small signal-processing nodes, AI engines and GPIO, joined.

In the order of the data: a `text` and its `platform` go through the `compiler` to the words of the `binary`,
which `run` runs with its `nodes` and each `script`.
"""
