"""`aisrv wireshark`: the dissector that names our commands, and its place in Wireshark."""

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

import click

from aisrv.values.whole_file import write_whole

_PATIENCE_SECONDS: Final = 20.0


def plugin_folder() -> Path | None:
    """Return the user's folder of Lua plugins, as the installed tshark names it; None without tshark."""
    tshark = shutil.which("tshark")
    if tshark is None:
        return None
    try:
        done = subprocess.run(
            [tshark, "-G", "folders"], capture_output=True, text=True, timeout=_PATIENCE_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"^Personal Lua Plugins:\s*(\S.*)$", done.stdout, re.MULTILINE)
    return Path(found[1].strip()) if found else None


@click.command()
@click.option("--install", is_flag=True, help="Copy the dissector to the user's folder of Lua plugins.")
def wireshark(install: bool) -> None:
    """Show where the dissector for Wireshark is and where to put it; it names the commands in captures.

    \b
    Examples:
      aisrv run --pcap usb.pcapng
      aisrv wireshark --install
      wireshark usb.pcapng                      then filter: aisrv, aisrv.command == 0x84
    """
    from aisrv.addons.captures.wireshark import DISSECTOR

    folder = plugin_folder()
    if install:
        if folder is None:
            raise click.ClickException(
                f"tshark is not installed, which says where plugins go: copy {DISSECTOR} to the folder that "
                'Wireshark names in Help, About, Folders as "Personal Lua Plugins"'
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_whole(folder / DISSECTOR.name, [DISSECTOR.read_bytes()])
        except OSError as error:
            raise click.ClickException(f"{folder / DISSECTOR.name}: {error.strerror}") from None
        click.echo(f"copied to {folder / DISSECTOR.name}")
        return
    place = folder or 'the folder that Wireshark names in Help, About, Folders as "Personal Lua Plugins"'
    click.echo(f"dissector: {DISSECTOR}")
    click.echo(f"belongs in: {place}")
    click.echo("to put it there: aisrv wireshark --install")
    click.echo(f"for once: tshark -X lua_script:{DISSECTOR} -r usb.pcapng -Y aisrv")
