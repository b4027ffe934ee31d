"""The command interpreter: the engine task, its commands and what they act on."""
