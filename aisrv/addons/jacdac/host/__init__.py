"""A Jacdac bus on the host: a connection to it, its registers and pipes, and the Model Runners on it."""
