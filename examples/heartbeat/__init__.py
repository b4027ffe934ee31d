"""A package that adds to aisrv: a table of board files, its task, and a command."""
