"""Graphs of stream-processing nodes: their texts and manifests, the compiler, and the words of the binary.

A graph joins sensors, small signal-processing nodes, AI engines and GPIO. `compile` turns its text into
32-bit words, `words` reads words as values (`model`), and back.
"""
