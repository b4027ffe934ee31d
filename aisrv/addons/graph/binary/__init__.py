"""The words of a compiled graph, read as values and written, and the codes in them."""
