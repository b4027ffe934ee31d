"""Execution of relocatable images: a board with a core, a flash and RAM."""
