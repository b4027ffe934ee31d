"""`python -m host_tools`: the `aisrv-host` command."""

from host_tools.cli import main

main(prog_name="aisrv-host")
