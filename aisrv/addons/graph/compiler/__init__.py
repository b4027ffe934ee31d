"""The compiler of graphs, the decompiler, listings and drawings."""
