"""`aisrv replay`: the host's side of a USB capture against a device, with every answer compared."""

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from aisrv.addons.captures.replay.commands import FOLLOWERS
from aisrv.addons.captures.replay.player import ReplayResult, replay
from aisrv.addons.captures.replay.transfers import devices_of, transfers_of
from aisrv.board import BoardError
from aisrv.board.catalog import find_board
from aisrv.cli.options.board import complete_board
from aisrv.terminal.file_types import FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.terminal.require_linux import require_linux
from aisrv.values.regular_file import opened_regular
from host_tools.errors import HostError
from host_tools.transports.schemes import open_transport
from host_tools.transports.transport import RequestTransport
from phy.usb.taps.capture_reader import LARGEST_CAPTURE, Capture, CaptureError, read_capture

DIFFERENT: Final = 1
CUT: Final = 3
"""Exit code if all answers are as recorded, and the file ends within a packet."""


def _device(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    bus, _, device = text.partition(".")
    if not (bus.isdecimal() and device.isdecimal()):
        raise click.BadParameter(f"{text!r} is not a device of a capture; write BUS.DEVICE, such as 1.4")
    return int(bus), int(device)


@dataclass(frozen=True, slots=True)
class Comparison:
    """Reading of a capture, and compared parts of its answers."""

    protocol: str = option(
        "--protocol",
        type=click.Choice(list(FOLLOWERS)),
        default="aisrv",
        show_default=True,
        help="What the recorded device speaks.",
    )
    unmasked: bool = option(
        "--unmasked", default=False, is_flag=True, help="Also compare timings, debug log and profile."
    )
    timeout: float = option(
        "--timeout",
        type=click.FloatRange(min=0.001),
        default=30.0,
        show_default=True,
        help="Seconds for each transfer.",
    )


@click.command("replay")
@require_linux("replay")
@click.argument("capture", type=FILE)
@click.option(
    "--device", help="Device to play it to, as for aisrv-host. [default: a virtual one, started for this]"
)
@click.option(
    "--board",
    metavar="NAME|FILE",
    shell_complete=complete_board,
    help="Board of the virtual device, as for `aisrv run`; in place of --device. [default: single]",
)
@click.option(
    "--of", "of", callback=_device, metavar="BUS.DEVICE", help="Device of the capture. [default: its first]"
)
@option_group("comparison", Comparison)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def replay_command(
    context: click.Context,
    capture: Path,
    device: str | None,
    board: str | None,
    of: tuple[int, int] | None,
    comparison: Comparison,
    as_json: bool,
) -> None:
    """Play the host's side of the USB capture CAPTURE to a device, and compare every answer.

    CAPTURE is a pcapng or pcap file of usbmon or of USBPcap: from Wireshark, tcpdump, or `--pcap`. Transfers
    begin and end in the order of the capture. Exit codes: 0, all answers are as recorded; 1, one is not, or
    the device is not there; 2, wrong usage or no capture; 3, all answers are as recorded up to where the
    file was cut, within a packet.

    \b
    Examples:
      aisrv replay board.pcapng
      aisrv replay board.pcapng --device usb
      aisrv replay board.pcapng --board camera --of 1.4
    """
    address = _address(device, board)
    try:
        with opened_regular(capture, LARGEST_CAPTURE) as file:
            recorded = read_capture(file)
        found = devices_of(recorded.events)
        chosen = of or next(iter(found), None)
        if chosen not in found:
            names = ", ".join(f"{bus}.{number}" for bus, number in found) or "none"
            raise click.UsageError(f"{capture} has no such device; with bulk transfers there: {names}")
        transfers = list(transfers_of(recorded, chosen))
    except CaptureError as error:
        raise click.UsageError(f"{capture}: {error}") from None
    try:
        transport = open_transport(address)
        try:
            if not isinstance(transport, RequestTransport):
                raise click.UsageError(f"{address} is not on USB, the capture is")
            result = replay(
                transfers,
                transport,
                protocol=comparison.protocol,
                mask=not comparison.unmasked,
                timeout=comparison.timeout,
            )
        finally:
            transport.close()
    except HostError as error:
        raise click.ClickException(str(error)) from None
    click.echo(_json(result, recorded) if as_json else _text(result, recorded))
    if result.difference is not None:
        context.exit(DIFFERENT)
    if recorded.cut_at is not None:
        context.exit(CUT)


def _address(device: str | None, board: str | None) -> str:
    if device is not None and board is not None:
        raise click.UsageError("--board is of the virtual device, --device names another: give one of them")
    if board is None:
        return device or "virtual"
    try:
        find_board(board)
    except BoardError as error:
        raise click.UsageError(str(error)) from None
    return f"virtual:{board}"


def _text(result: ReplayResult, capture: Capture) -> str:
    lines = [f"{result.transfers} transfers with {result.commands} commands, {result.left_out} left out"]
    if capture.cut_at is not None:
        last = max((each.number for each in capture), default=0)
        place = f"behind packet {last}, at byte {capture.cut_at:,}"
        lines.append(f"the capture was cut: it ends within what is {place}")
    if result.difference is not None:
        lines.append(f"first difference: {result.difference}")
    elif capture.cut_at is None:
        lines.append("all answers are as recorded")
    else:
        lines.append("all answers up to there are as recorded")
    return "\n".join(lines)


def _json(result: ReplayResult, capture: Capture) -> str:
    difference = None if result.difference is None else asdict(result.difference)
    if difference is not None:
        difference["packet"] = difference.pop("number")
    counts = {
        "transfers": result.transfers,
        "commands": result.commands,
        "left_out": result.left_out,
        "cut_at_byte": capture.cut_at,
        "as_recorded": result.difference is None,
    }
    return json.dumps({**counts, "difference": difference}, indent=2)
