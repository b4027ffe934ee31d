"""`python -m flash_server` is `aisrv-flash`."""

from flash_server.cli import main

main(prog_name="aisrv-flash")
