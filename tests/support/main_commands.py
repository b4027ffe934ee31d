"""The three programs, as commands to call within this process."""

from typing import Final

import click

from aisrv.cli.main import main as aisrv
from flash_server.cli import main as aisrv_flash
from host_tools.cli import main as aisrv_host

MAINS: Final[dict[str, click.Group]] = {
    "aisrv": aisrv,
    "aisrv-host": aisrv_host,
    "aisrv-flash": aisrv_flash,
}
