"""The client's side of the flash server's channels."""
