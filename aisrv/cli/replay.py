"""`aisrv replay`: the host's side of a USB capture against a device, with every answer compared."""

import json
from dataclasses import asdict
from pathlib import Path

import click

from aisrv.analysis.replay.commands import FOLLOWERS
from aisrv.analysis.replay.player import ReplayResult, replay
from aisrv.analysis.replay.transfers import devices_of, transfers_of
from aisrv.regular_file import read_regular
from aisrv.terminal.file_types import FILE
from host_tools.errors import HostError
from host_tools.transports.requests import RequestTransport
from host_tools.transports.schemes import open_transport
from phy.usb.taps.capture_reader import CaptureError, read_capture


def _device(_context: click.Context, _parameter: click.Parameter, text: str | None) -> tuple[int, int] | None:
    if text is None:
        return None
    bus, _, device = text.partition(".")
    if not (bus.isdecimal() and device.isdecimal()):
        raise click.BadParameter(f"{text!r} is not a device of a capture; write BUS.DEVICE, such as 1.4")
    return int(bus), int(device)


@click.command("replay")
@click.argument("capture", type=FILE)
@click.option(
    "--device", default="virtual", show_default=True, help="Device to play it to, as for aisrv-host."
)
@click.option(
    "--of", "of", callback=_device, metavar="BUS.DEVICE", help="Device of the capture. [default: its first]"
)
@click.option(
    "--protocol",
    type=click.Choice(list(FOLLOWERS)),
    default="aisrv",
    show_default=True,
    help="What the recorded device speaks.",
)
@click.option("--unmasked", is_flag=True, help="Also compare timings, debug log and profile.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0.001),
    default=30.0,
    show_default=True,
    help="Seconds for each transfer.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def replay_command(
    context: click.Context,
    capture: Path,
    device: str,
    of: tuple[int, int] | None,
    protocol: str,
    unmasked: bool,
    timeout: float,
    as_json: bool,
) -> None:
    """Play the host's side of the USB capture CAPTURE to a device, and compare every answer.

    CAPTURE is a pcapng or pcap file of usbmon or of USBPcap: from Wireshark, tcpdump, or `--pcap`. Transfers
    begin and end in the order of the capture. Exit codes: 0, all answers are as recorded; 1, one is not, or
    the device is not there; 2, wrong usage or no capture.

    \b
    Examples:
      aisrv replay board.pcapng
      aisrv replay board.pcapng --device usb
      aisrv replay board.pcapng --device virtual:camera --of 1.4
    """
    try:
        events = list(read_capture(read_regular(capture)))
        found = devices_of(events)
        chosen = of or next(iter(found), None)
        if chosen not in found:
            names = ", ".join(f"{bus}.{number}" for bus, number in found) or "none"
            raise click.UsageError(f"{capture} has no such device; with bulk transfers there: {names}")
        transfers = list(transfers_of(events, chosen))
    except CaptureError as error:
        raise click.UsageError(f"{capture}: {error}") from None
    try:
        transport = open_transport(device)
        try:
            if not isinstance(transport, RequestTransport):
                raise click.UsageError(f"{device} is not on USB, the capture is")
            result = replay(transfers, transport, protocol=protocol, mask=not unmasked, timeout=timeout)
        finally:
            transport.close()
    except HostError as error:
        raise click.ClickException(str(error)) from None
    click.echo(_json(result) if as_json else _text(result))
    if result.difference is not None:
        context.exit(1)


def _text(result: ReplayResult) -> str:
    counts = f"{result.transfers} transfers with {result.commands} commands, {result.left_out} left out"
    if result.difference is None:
        return f"{counts}\nall answers are as recorded"
    return f"{counts}\nfirst difference: {result.difference}"


def _json(result: ReplayResult) -> str:
    difference = None if result.difference is None else asdict(result.difference)
    if difference is not None:
        difference["packet"] = difference.pop("number")
    counts = {
        "transfers": result.transfers,
        "commands": result.commands,
        "left_out": result.left_out,
        "as_recorded": result.difference is None,
    }
    return json.dumps({**counts, "difference": difference}, indent=2)
