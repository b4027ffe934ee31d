"""`aisrv doctor`: working and missing parts of this machine, and the commands that help."""

import json
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final

import click
import trio
from rich.console import Console
from rich.text import Text

from aisrv import digits
from aisrv.attach.preload.server import serve_preload
from aisrv.attach.preload.trial import PreloadError, PreloadMissingError, forget_trials
from aisrv.attach.preload.wire import PACKAGE
from aisrv.attach.usbip.vhci import SYSFS, Vhci, VhciError
from aisrv.cli.extra_modules import EXTRAS, import_failures
from aisrv.cli.serving import first_error
from aisrv.device.device import open_device
from aisrv.inference.errors import InferenceError
from aisrv.inference.process.isolation import IsolatedInterpreter, isolated
from aisrv.inference.process.sandbox_layers import sandbox_layers
from aisrv.protocol.commands import USB_PRODUCT_ID, USB_VENDOR_ID
from aisrv.protocol.engine_kind import EngineKind, candidates, default_kind
from aisrv.values.addons import load, others, ours
from aisrv.values.extras import install_command
from aisrv.values.regular_file import read_regular

RULE_FOLDERS: Final = ("/etc/udev/rules.d", "/run/udev/rules.d", "/usr/lib/udev/rules.d", "/lib/udev/rules.d")
RULE: Final = (
    f'SUBSYSTEM=="usb", ATTR{{idVendor}}=="{USB_VENDOR_ID:04x}", '
    f'ATTR{{idProduct}}=="{USB_PRODUCT_ID:04x}", TAG+="uaccess"'
)
RULE_FILE: Final = "/etc/udev/rules.d/70-aisrv.rules"
SANDBOX_USE: Final = "models and tasks in C of others"
LIBUSB_USE: Final = "hardware on USB, --device usb"
RULE_USE: Final = "boards on USB, for users other than root"
PRELOAD_USE: Final = "aisrv exec of programs that are not Python"
VHCI_USE: Final = "aisrv attach"


class State(StrEnum):
    """Result of a check."""

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
    """Command that helps, or None."""
    use: str = ""
    """Uses that need it; empty for what every device needs."""


def check_python() -> Finding:
    """Describe Python and the system; aisrv is tested on Linux alone."""
    detail = f"{platform.python_version()} on {platform.system()} {platform.machine()}"
    if sys.platform == "linux":
        return Finding("python", State.WORKS, detail)
    return Finding("python", State.BROKEN, f"{detail}; aisrv is tested on Linux alone")


async def check_engine(kind: EngineKind) -> Finding:
    """Run the digits network in a process of its own, as a device does."""
    name, lines, use = f"engine {kind}", list[str](), "" if kind == default_kind() else f"--engine {kind}"
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
        return Finding(name, state, str(error), extra and install_command(extra), use)
    finally:
        await model.close()
    if scores.index(max(scores)) != digit.label:
        mistaken = f"takes a digit {digit.label} for {scores.index(max(scores))}"
        return Finding(name, state, mistaken, use=use)
    default = ", the default" if kind == default_kind() else ""
    return Finding(name, State.WORKS, f"classifies a digit{default}", use=use)


def check_extras() -> Iterator[Finding]:
    """Import what each extra brings, in a process of its own: a package may be there and not work."""
    reasons = import_failures([module for extra in EXTRAS.values() for module in extra.modules])
    for name, extra in EXTRAS.items():
        failed = [reasons[module] for module in extra.modules if module in reasons]
        state = State.MISSING if failed else State.WORKS
        detail = "; ".join(failed) if failed else ", ".join(extra.modules)
        yield Finding(f"extra {name}", state, detail, install_command(name) if failed else None, extra.use)


def check_add_ons() -> Iterator[Finding]:
    """Ask the add-ons what they need of the machine."""
    for add_on in (*ours(), *others()):
        if add_on.doctor:
            yield from load(add_on.doctor)()


def check_sandbox() -> Iterator[Finding]:
    """Describe the layers around the processes of models."""
    for layer in sandbox_layers():
        helps = "sudo apt-get install libseccomp2" if "libseccomp2" in layer.detail else None
        state = State.WORKS if layer.holds else State.MISSING
        yield Finding(f"sandbox {layer.name}", state, layer.detail, helps, SANDBOX_USE)


def check_libusb() -> Finding:
    """Look for the library that `--device usb` needs."""
    from usb.backend import libusb1

    if libusb1.get_backend() is None:
        helps = "sudo apt-get install libusb-1.0-0"
        return Finding("libusb", State.MISSING, "no libusb 1.0", helps, LIBUSB_USE)
    return Finding("libusb", State.WORKS, "libusb 1.0", use=LIBUSB_USE)


def check_rule(folders: Sequence[str] = RULE_FOLDERS) -> Finding:
    """Look for a udev rule that lets users open the board."""
    wanted = (f"{USB_VENDOR_ID:04x}", f"{USB_PRODUCT_ID:04x}")
    for folder in folders:
        for path in sorted(Path(folder).glob("*.rules")):
            try:
                lines = read_regular(path).decode(errors="replace").splitlines()
            except OSError:
                continue
            if any(all(word in line for word in wanted) and not line.startswith("#") for line in lines):
                return Finding("udev rule", State.WORKS, str(path), use=RULE_USE)
    helps = f"echo '{RULE}' | sudo tee {RULE_FILE} && sudo udevadm control --reload"
    return Finding("udev rule", State.MISSING, "no rule names the board", helps, RULE_USE)


async def check_preload() -> Finding:
    """Run a small program against a device, as `aisrv exec` runs programs."""
    forget_trials()
    finding = Finding("umockdev", State.WORKS, "intercepts USB and SPI", use=PRELOAD_USE)
    try:
        async with open_device(runner=isolated) as device, trio.open_nursery() as nursery:
            await nursery.start(serve_preload, [device.usb])
            nursery.cancel_scope.cancel()
    except* PreloadMissingError:
        helps = f"sudo apt-get install {PACKAGE}"
        finding = Finding("umockdev", State.MISSING, "not installed", helps, PRELOAD_USE)
    except* (PreloadError, OSError) as errors:
        finding = Finding("umockdev", State.MISSING, first_error(errors), use=PRELOAD_USE)
    return finding


def check_vhci(sysfs: Path = SYSFS) -> Finding:
    """Check whether this machine's kernel takes devices, for `aisrv attach`."""
    try:
        Vhci(sysfs).check()
    except (VhciError, OSError) as error:
        loaded = (sysfs / "attach").exists()
        detail = str(error) if loaded else "the kernel's module is not loaded"
        return Finding("vhci", State.MISSING, detail, None if loaded else "sudo modprobe vhci-hcd", VHCI_USE)
    return Finding("vhci", State.WORKS, "this kernel takes devices", use=VHCI_USE)


async def examine() -> list[Finding]:
    kinds = dict.fromkeys((default_kind(), *map(EngineKind, reversed(candidates()))))
    blocking: tuple[Callable[[], Finding], ...] = (check_libusb, check_rule, check_vhci)
    return [
        check_python(),
        *[await check_engine(kind) for kind in kinds],
        *check_add_ons(),
        *await trio.to_thread.run_sync(lambda: list(check_extras())),
        *await trio.to_thread.run_sync(lambda: list(check_sandbox())),
        await check_preload(),
        *[await trio.to_thread.run_sync(check) for check in blocking],
    ]


STYLES: Final = {State.WORKS: "green", State.MISSING: "yellow", State.BROKEN: "bold red"}


def show(findings: Sequence[Finding]) -> Iterator[Text]:
    """Yield lines: needs of every device, those of some uses, and the verdict; working parts first."""
    width = max(len(finding.name) for finding in findings)
    groups = {
        "Every device needs": [finding for finding in findings if not finding.use],
        "Only some uses need": [finding for finding in findings if finding.use],
    }
    for title, group in groups.items():
        yield Text(title, "bold")
        for finding in sorted(group, key=lambda each: each.state is not State.WORKS):
            yield from _lines(finding, width)
        yield Text()
    yield _verdict(findings)


def _lines(finding: Finding, width: int) -> Iterator[Text]:
    told = finding.detail
    if finding.use:
        told = f"{finding.use} ({told})" if finding.state is State.WORKS else f"{finding.use}: {told}"
    line = Text("  ").append(f"{finding.state:8}", STYLES[finding.state])
    yield line.append(f" {finding.name:{width}}  ").append(told)
    if finding.helps is not None:
        yield Text(f"{'':{width + 13}}").append(finding.helps, "cyan")


def _verdict(findings: Sequence[Finding]) -> Text:
    missing = sum(finding.state is State.MISSING for finding in findings)
    left = {0: "nothing is missing", 1: "1 thing that only some uses need is missing"}
    rest = left.get(missing, f"{missing} things that only some uses need are missing")
    if any(finding.state is State.BROKEN for finding in findings):
        return Text(f"devices do not run models here; {rest}", "bold red")
    return Text(f"devices run models here; {rest}", "bold green")


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
        for line in show(findings):
            Console().print(line, soft_wrap=True)  # a command stays on one line
    sys.exit(int(broken))
