"""What there is and what it says: list, info, log, profile, timings."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click
from msgspec import structs

from aisrv.protocol.usbip import PORT
from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE
from host_tools.commands.settings import DEFAULT_DEVICE, HostSettings, pass_settings
from host_tools.errors import DeviceNotFound, TensorError, UnsupportedCommand
from host_tools.transports.schemes import describe

if TYPE_CHECKING:
    from flash_server.boot.boot_image import BootReport

LOOKED_AT: Final = (DEFAULT_DEVICE, f"usbip:localhost:{PORT}")
"""Where `list` looks when no device is named."""


@click.command(
    "list",
    epilog=examples("aisrv-host list", "aisrv-host --device usbip:lab-pc:3240 list"),
)
@pass_settings
def list_command(settings: HostSettings) -> None:
    """List the devices that can be reached.

    Without --device: boards on USB, and a USB/IP server on this machine. With --device usbip:HOST:PORT: the
    devices of that server.
    """
    from host_tools.commands import report
    from host_tools.transports.schemes import list_devices

    devices = []
    if settings.device:
        devices = list_devices(settings.device)
    else:
        for address in LOOKED_AT:
            try:
                devices += list_devices(address)
            except DeviceNotFound as error:
                click.echo(f"aisrv-host: {error}", err=True)

    def show() -> None:
        rows = [(one.address, one.product, one.serial, one.note) for one in devices]
        if rows:
            report.show_table(("device", "product", "serial", "note"), rows)
        else:
            click.echo("no devices found")

    settings.answer([asdict(device) for device in devices], show)


@click.command(
    short_help="Show ID, status, hardware and model sizes.",
    epilog=examples("aisrv-host info", "aisrv-host --device virtual --json info"),
)
@pass_settings
def info(settings: HostSettings) -> None:
    """Show the server's ID, status, hardware, the sizes of the loaded model, and what memory it takes."""
    from host_tools.commands import memory_report, report

    described = describe(settings.device or "", settings.engine)
    if described is not None:
        _show_described(settings, described)
        return
    with settings.connect() as server:
        identity, status, spec = server.id, server.status(), server.spec()
        booted, memory = server.boot_report(), server.memory_map()
    bits = [bit.name for bit in status]
    boot = _boot_report(booted)
    data = {
        "id": identity,
        "engine": settings.engine,
        "status": bits,
        "spec": structs.asdict(spec),
        "memory": None if memory is None else memory_report.memory_data(memory),
        "boot": None if boot is None else {**structs.asdict(boot), "text": str(boot)},
    }
    loaded = spec.input_bytes or spec.output_bytes
    pairs: dict[str, object] = {
        "ID": f"{identity:#010x}",
        "engine": settings.engine,
        "status": " ".join(map(str, bits)) or "OKAY",
        "kind of server": spec.server_kind,
        "tiles": spec.tiles,
        "internal memory": f"{spec.internal_kib} KiB a tile",
        "external memory": f"{spec.external_kib} KiB",
        "flash": f"{spec.flash_kib} KiB",
        "model": (
            f"{spec.input_bytes} bytes in, {spec.output_bytes} bytes out, {spec.timing_count} timings"
            if loaded
            else "none loaded"
        ),
    }
    if boot is not None:
        pairs["booted"] = str(boot)

    def show() -> None:
        report.show_pairs(pairs)
        if memory is not None:
            memory_report.show_memory(memory)

    settings.answer(data, show)


def _show_described(settings: HostSettings, data: Mapping[str, object]) -> None:
    """Show what a device says of itself."""
    from host_tools.commands import report

    pairs = {name.replace("_", " "): _shown(value) for name, value in data.items()}
    settings.answer(data, lambda: report.show_pairs(pairs))


def _shown(value: object) -> object:
    """Show a shape as `4x3`, and what is empty as none."""
    shown = "x".join(map(str, value)) if isinstance(value, tuple) else value
    return "none" if shown == "" else shown


def _boot_report(data: bytes) -> "BootReport | None":
    """Read an answer of GET_BOOT; None where it is of a board that uses the code for something else."""
    if not data:
        return None
    from flash_server.boot.boot_image import BootImageError, BootReport

    try:
        return BootReport.from_bytes(data)
    except BootImageError:
        return None


@click.command(short_help="Show the debug log.", epilog=examples("aisrv-host log"))
@pass_settings
def log(settings: HostSettings) -> None:
    """Show the last lines of the engine's debug log."""
    with settings.connect() as server:
        text = server.debug_log()
    settings.answer({"log": text.splitlines()}, lambda: click.echo(text, nl=bool(text)))


@click.command(short_help="Print the profiler summary.", epilog=examples("aisrv-host profile"))
@pass_settings
def profile(settings: HostSettings) -> None:
    """Print the profiler summary of the last inference: each operator, the total, a table by class.

    The device writes it to its debug log, too. A virtual device only, over USB.
    """
    with settings.connect() as server:
        text = server.profile()
    settings.answer({"profile": text.splitlines()}, lambda: click.echo(text, nl=False))


@click.command(
    short_help="Show the time of each operator.",
    epilog=examples("aisrv-host timings", "aisrv-host timings --model person.tflite"),
)
@click.option("--model", "model_file", type=FILE, help="The loaded model's file, for the operators' names.")
@pass_settings
def timings(settings: HostSettings, model_file: Path | None) -> None:
    """Show how long each operator took in the last inference.

    Times are the device's own. Those of a virtual device are predictions, each with between what it is
    expected to be; hardware measures them.
    """
    from host_tools.commands import report
    from host_tools.tensors.files import read_model_file

    if settings.as_float32 and model_file:
        raise UnsupportedCommand(
            "over Jacdac there is one time for all operators: give no --model, or use USB or SPI"
        )
    given = tuple(operator.name for operator in read_model_file(model_file).operators) if model_file else ()
    with settings.connect() as server:
        found = server.timings()
    if given and len(given) != len(found):
        raise TensorError(
            f"{model_file} has {len(given)} operators, the device gives {len(found)} timings: "
            "it holds another model"
        )
    named = found.named(given) if given else found
    settings.answer(named.as_json(), lambda: report.show_timings(named))
