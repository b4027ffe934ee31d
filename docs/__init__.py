"""The manual, and the programs that make parts of it."""
