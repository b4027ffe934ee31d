"""`python -m aisrv`: the `aisrv` command."""

from aisrv.cli import main

main(prog_name="aisrv")
