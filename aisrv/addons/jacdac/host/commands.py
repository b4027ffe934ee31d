"""A Jacdac bus on the host: watch it live, and decode frames that were recorded."""

import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE
from aisrv.values.regular_file import read_regular
from host_tools.commands.settings import HostSettings, pass_settings

if TYPE_CHECKING:
    from aisrv.addons.jacdac.wire.decoder import BusDecoder
    from aisrv.addons.jacdac.wire.frame import Frame, ServicePacket

SCHEME: Final = "jacdac:"
DEFAULT_BUS: Final = "jacdac:127.0.0.1:8082"
ASK_EVERY: Final = 1.0
"""Seconds between two questions for the registers of a device."""

_HEX: Final = re.compile(r"\b[0-9a-fA-F]{32,504}\b")


@click.group("jacdac", epilog=examples("aisrv-host jacdac watch", "aisrv-host jacdac dump trace.txt"))
def jacdac() -> None:
    """Watch a Jacdac bus, or decode its frames."""


@jacdac.command(
    epilog=examples("aisrv-host jacdac watch", "aisrv-host --device jacdac:127.0.0.1:8082 jacdac watch")
)
@click.option(
    "--seconds", type=click.FloatRange(min=0), help="End after this many seconds. [default: with Ctrl-C]"
)
@pass_settings
def watch(settings: HostSettings, seconds: float | None) -> None:
    """Show the devices of a bus, their services, and registers as they change."""
    from aisrv.addons.jacdac.host.connection import JacdacConnection
    from aisrv.addons.jacdac.wire.decoder import BusDecoder
    from host_tools.errors import BadAddressError

    address = settings.device or DEFAULT_BUS
    if not address.startswith(SCHEME):
        raise BadAddressError(f"{address!r} is not a Jacdac bus; use jacdac:HOST:PORT")
    decoder = BusDecoder()
    shown: dict[tuple[int, int, int], bytes] = {}
    asked: dict[int, float] = {}
    with JacdacConnection(address.removeprefix(SCHEME)) as bus:
        for frame in bus.frames(seconds):
            lines = list(decoder.describe(frame))
            for packet, line in zip(frame.packets, lines, strict=True):
                if _is_new(frame, packet, shown):
                    click.echo(line)
            if not frame.is_command and time.monotonic() - asked.get(frame.device, -ASK_EVERY) >= ASK_EVERY:
                asked[frame.device] = time.monotonic()
                for question in _questions(decoder, frame.device):
                    bus.send(question)


def _is_new(frame: "Frame", packet: "ServicePacket", shown: dict[tuple[int, int, int], bytes]) -> bool:
    """Return whether a report says something else than the last of its kind; commands are not shown."""
    from aisrv.addons.jacdac.wire.frame import LAST_SERVICE_INDEX
    from aisrv.addons.jacdac.wire.service_tables import CONTROL

    if frame.is_command or packet.service > LAST_SERVICE_INDEX:
        return False
    if packet[:2] == (0, 0x1000 | CONTROL.register("uptime").code):
        return False
    key = (frame.device, packet.service, packet.command)
    content = packet.payload[4:] if packet[:2] == (0, 0) else packet.payload  # without the counters
    if shown.get(key) == content:
        return False
    shown[key] = content
    return True


def _questions(decoder: "BusDecoder", device: int) -> Iterator[bytes]:
    from aisrv.addons.jacdac.wire.frame import ServicePacket, command_frame
    from aisrv.addons.jacdac.wire.service_spec import GET

    for index in range(len(decoder.services(device)) + 1):
        spec = decoder.spec_of(device, index)
        if spec is not None:
            packets = [ServicePacket(index, GET | register.code) for register in spec.registers]
            yield command_frame(device, packets)


@jacdac.command(
    epilog=examples("aisrv-host jacdac dump trace.txt", "grep -o '[0-9a-f]*' log | aisrv-host jacdac dump")
)
@click.argument("file", type=FILE, required=False)
def dump(file: Path | None) -> None:
    """Decode the frames in FILE, or in standard input: in each line the first long hexadecimal number."""
    from aisrv.addons.jacdac.wire.decoder import BusDecoder
    from aisrv.addons.jacdac.wire.frame import Frame, FrameError

    decoder = BusDecoder()
    lines = sys.stdin if file is None else read_regular(file).decode(errors="replace").splitlines()
    for line in lines:
        found = _HEX.search(line)
        if found is None or len(found.group()) % 2:
            continue
        try:
            frame = Frame.from_bytes(bytes.fromhex(found.group()))
        except FrameError as error:
            click.echo(f"no frame: {error}")
            continue
        for text in decoder.describe(frame):
            click.echo(text)
