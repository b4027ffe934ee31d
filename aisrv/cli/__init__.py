"""The subcommands of `aisrv`, one module each."""
