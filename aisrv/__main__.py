"""`python -m aisrv`: the `aisrv` command."""

from aisrv.cli.main import main

main(prog_name="aisrv")
