"""The subcommands of `aisrv-host`: each a thin layer over the library."""
