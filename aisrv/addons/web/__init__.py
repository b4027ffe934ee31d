"""The page of `--web`: its server, and what it is sent of any view of a device; and the page itself."""
