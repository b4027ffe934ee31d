"""Settings in TOML files: read, located by line, converted to typed tables; and sizes in bytes."""
