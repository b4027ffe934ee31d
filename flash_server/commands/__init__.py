"""The subcommands of `aisrv-flash`."""
