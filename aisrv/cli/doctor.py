"""`aisrv doctor`: what works on this machine, what is missing, and the command that helps."""

import json
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import click
import trio

from aisrv import digits
from aisrv.attach.preload.server import serve_preload
from aisrv.attach.preload.trial import PreloadError, PreloadMissingError, forget_trials
from aisrv.attach.preload.wire import PACKAGE
from aisrv.attach.usbip.vhci import SYSFS, Vhci, VhciError
from aisrv.cli.serving import first_error
from aisrv.device.device import open_device
from aisrv.inference.errors import InferenceError
from aisrv.inference.process.isolation import IsolatedInterpreter, isolated
from aisrv.inference.process.sandbox_layers import sandbox_layers
from aisrv.protocol.commands import USB_PRODUCT_ID, USB_VENDOR_ID
from aisrv.protocol.engine_kind import PACKAGES, EngineKind, default_kind

RULE_FOLDERS: Final = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d")
"""Where udev looks for rules."""
RULE: Final = (
    f'SUBSYSTEM=="usb", ATTR{{idVendor}}=="{USB_VENDOR_ID:04x}", '
    f'ATTR{{idProduct}}=="{USB_PRODUCT_ID:04x}", TAG+="uaccess"'
)
RULE_FILE: Final = "/etc/udev/rules.d/70-aisrv.rules"
EXTRAS: Final = {
    "images": ("PIL",),
    "camera": ("cv2",),
    "litert": ("ai_edge_litert",),
    "tflm": ("tflite_micro",),
    "xcore": ("xmos_ai_tools",),
    "numba": ("numba",),
    "relocatable": ("elftools", "unicorn"),
    "spi": ("spidev",),
}
"""Extras of the package and the modules that each brings."""


class State(StrEnum):
    """How a check came out."""

    WORKS = "works"
    MISSING = "missing"
    """Something that only some uses need."""
    BROKEN = "broken"
    """Something without which no device runs a model."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found."""

    name: str
    state: State
    detail: str
    helps: str | None = None
    """The command that helps, where there is one."""


def check_python() -> Finding:
    """Say which Python and system this is; aisrv is tested on Linux alone."""
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.platform == "linux":
        return Finding("python", State.WORKS, detail)
    return Finding("python", State.BROKEN, f"{detail}; aisrv is tested on Linux alone")


async def check_engine(kind: EngineKind) -> Finding:
    """Run the digits network in a process of its own, as a device does."""
    name, lines = f"engine {kind}", list[str]()
    state = State.BROKEN if kind == default_kind() else State.MISSING
    digit = digits.test_images()[0]
    model = IsolatedInterpreter(lines.append, kind)
    try:
        await model.load(digits.model_bytes(), 1 << 20)
        model.input(0)[:] = digit.image
        await model.invoke()
        scores = memoryview(bytes(model.output(0))).cast("b").tolist()
    except (InferenceError, OSError) as error:
        extra = kind.name if kind.name in EXTRAS else None
        return Finding(name, state, str(error), extra and install(extra))
    finally:
        await model.close()
    if scores.index(max(scores)) != digit.label:
        return Finding(name, state, f"takes a digit {digit.label} for {scores.index(max(scores))}")
    default = ", the default" if kind == default_kind() else ""
    return Finding(name, State.WORKS, f"classifies a digit{default}")


def check_extras() -> Iterator[Finding]:
    """Say which extras are installed."""
    for extra, modules in EXTRAS.items():
        absent = [module for module in modules if find_spec(module) is None]
        if absent:
            yield Finding(f"extra {extra}", State.MISSING, f"no {', '.join(absent)}", install(extra))
        else:
            yield Finding(f"extra {extra}", State.WORKS, ", ".join(modules))


def check_native() -> Finding:
    """Say which variant of the native kernels this processor runs."""
    from aisrv.kernels.backends.native.library import NativeError, load

    try:
        variant = load().variants[-1]
    except NativeError as error:
        return Finding("native kernels", State.MISSING, f"{error}; slower ones serve")
    return Finding("native kernels", State.WORKS, f"{variant.value}, for the engine kernels")


def check_sandbox() -> Iterator[Finding]:
    """Say which layers around the processes of models hold."""
    for layer in sandbox_layers():
        helps = "sudo apt-get install libseccomp2" if "libseccomp2" in layer.detail else None
        state = State.WORKS if layer.holds else State.MISSING
        yield Finding(f"sandbox {layer.name}", state, layer.detail, helps)


def check_libusb() -> Finding:
    """Look for the library that `--device usb` needs."""
    from usb.backend import libusb1

    if libusb1.get_backend() is None:
        helps = "sudo apt-get install libusb-1.0-0"
        return Finding("libusb", State.MISSING, "no libusb 1.0: hardware on USB cannot be reached", helps)
    return Finding("libusb", State.WORKS, "hardware on USB can be reached")


def check_rule(folders: Sequence[str] = RULE_FOLDERS) -> Finding:
    """Look for a udev rule that lets users open the board."""
    wanted = (f"{USB_VENDOR_ID:04x}", f"{USB_PRODUCT_ID:04x}")
    for folder in folders:
        for path in sorted(Path(folder).glob("*.rules")):
            try:
                lines = path.read_text(errors="replace").splitlines()
            except OSError:
                continue
            if any(all(word in line for word in wanted) and not line.startswith("#") for line in lines):
                return Finding("udev rule", State.WORKS, str(path))
    helps = f"echo '{RULE}' | sudo tee {RULE_FILE} && sudo udevadm control --reload"
    return Finding("udev rule", State.MISSING, "only root can open a board on USB", helps)


async def check_preload() -> Finding:
    """Run a small program against a device, as `aisrv exec` runs programs."""
    forget_trials()
    finding = Finding("umockdev", State.WORKS, "`aisrv exec` serves any dynamically linked program")
    try:
        async with open_device(runner=isolated) as device, trio.open_nursery() as nursery:
            await nursery.start(serve_preload, [device.usb])
            nursery.cancel_scope.cancel()
    except* PreloadMissingError:
        detail = "`aisrv exec` serves Python programs alone"
        finding = Finding("umockdev", State.MISSING, detail, f"sudo apt-get install {PACKAGE}")
    except* (PreloadError, OSError) as errors:
        finding = Finding("umockdev", State.MISSING, first_error(errors))
    return finding


def check_vhci(sysfs: Path = SYSFS) -> Finding:
    """Look whether this machine's kernel takes devices, for `aisrv attach`."""
    try:
        Vhci(sysfs).check()
    except (VhciError, OSError) as error:
        helps = None if (sysfs / "attach").exists() else "sudo modprobe vhci-hcd"
        return Finding("vhci", State.MISSING, str(error), helps)
    return Finding("vhci", State.WORKS, "`aisrv attach` can plug a device into the kernel")


def install(extra: str) -> str:
    """Return the command that installs an extra."""
    if extra == "xcore" and sys.version_info >= (3, 12):  # it asks for numpy 1, which the engine does not use
        return "pip install --no-deps xmos-ai-tools"
    return f'pip install "aisrv[{extra}]"'


async def examine() -> list[Finding]:
    """Make all checks."""
    kinds = dict.fromkeys((default_kind(), EngineKind("kernels")))
    kinds |= dict.fromkeys(EngineKind(kind) for kind, package in PACKAGES.items() if find_spec(package))
    blocking: tuple[Callable[[], Finding], ...] = (check_libusb, check_rule, check_vhci)
    return [
        check_python(),
        *[await check_engine(kind) for kind in kinds],
        check_native(),
        *await trio.to_thread.run_sync(lambda: list(check_extras())),
        *await trio.to_thread.run_sync(lambda: list(check_sandbox())),
        await check_preload(),
        *[await trio.to_thread.run_sync(check) for check in blocking],
    ]


def show(findings: Sequence[Finding]) -> str:
    """Return the findings as lines: one each, and below it the command that helps."""
    width = max(len(finding.name) for finding in findings)
    lines = []
    for finding in findings:
        lines.append(f"{finding.state:8} {finding.name:{width}}  {finding.detail}")
        if finding.helps is not None:
            lines.append(f"{'':8} {'':{width}}  > {finding.helps}")
    return "\n".join(lines)


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print the findings as JSON.")
def doctor(as_json: bool) -> None:
    """Check what works on this machine, and say what is missing and which command installs it.

    Runs the digits network on the engines that are installed, and a small program against a device. Nothing
    is changed. The exit code is 1 if no device can run a model, and 0 if only some uses miss something.

    \b
    Examples:
      aisrv doctor
      aisrv doctor --json
    """
    findings = trio.run(examine)
    broken = any(finding.state is State.BROKEN for finding in findings)
    if as_json:
        click.echo(
            json.dumps({"works": not broken, "findings": [asdict(each) for each in findings]}, indent=2)
        )
    else:
        click.echo(show(findings))
        missing = sum(finding.state is State.MISSING for finding in findings)
        verdict = "devices do not run models here" if broken else "devices run models here"
        click.echo(f"\n{verdict}; {missing} things that some uses need are missing")
    sys.exit(int(broken))
