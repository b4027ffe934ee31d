"""Boots a kernel in QEMU and runs a program in it that sees this machine's files."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.support.programs import missing

HERE = Path(__file__).parent
SBIN = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
MODULES = ("virtio_pci", "9p", "9pnet_virtio", "overlay", "vhci-hcd", "usbmon", "cuse")
WORDS = "console=ttyS0 quiet panic=-1 no_timer_check"
"""For the kernel. Without the last one it panics as it boots on a busy machine, whose ticks come late."""
DIRECTORIES = ("bin", "modules", "proc", "sys", "dev", "lower", "layer", "system")
PROGRAMS = {
    "qemu-system-x86_64": "qemu-system-x86 and seabios",
    "busybox": "busybox-static",
    "cpio": "cpio",
    "modprobe": "kmod",
    "lsusb": "usbutils",
    "usbip": "usbip",
}
"""Programs of the host, and the Debian packages that have them."""

SETUP_SECONDS = 300
PACE = "sum(n * n % 7 for n in range(10_000_000))"
"""A program that takes about half a second of a core of today's machines."""
GUEST_PACES = 300
"""Limit of a guest's run, in runs of `PACE`: two and a half minutes where nothing else runs."""
LEAST_GUEST_SECONDS = 150.0
STEP = 40 / 150
"""Of the limit of a run, what a step of the guest's program may take."""


def kernel_root() -> Path:
    """The unpacked kernel package; a machine that cannot have it, or run it, skips the test."""
    for program, package in PROGRAMS.items():
        if shutil.which(program, path=SBIN) is None:
            missing(f"no {program}: install the package {package}; .ci/packages does that")
    done = subprocess.run(
        [HERE / "setup"], capture_output=True, text=True, timeout=SETUP_SECONDS, check=False
    )
    if done.returncode:
        missing(f"no kernel to boot: {done.stderr.strip()}")
    return Path(done.stdout.strip())


def _modules(kernel: Path, version: str) -> list[Path]:
    """The files of the modules in the order of loading."""
    found: dict[str, None] = {}
    for module in MODULES:
        listing = subprocess.run(
            ["modprobe", "-d", kernel, "-S", version, "--show-depends", module],
            capture_output=True,
            text=True,
            check=True,
            env={**os.environ, "PATH": SBIN},
        ).stdout
        for line in listing.splitlines():
            verb, *names = line.split()
            if verb == "insmod":
                found[names[0]] = None
    return [Path(name) for name in found]


def _pack_initramfs(kernel: Path, version: str, folder: Path) -> Path:
    tree = folder / "initramfs"
    for name in DIRECTORIES:
        (tree / name).mkdir(parents=True)
    shutil.copy(shutil.which("busybox", path=SBIN) or "", tree / "bin/busybox")
    shutil.copy(HERE / "init", tree / "init")
    (tree / "init").chmod(0o755)
    for number, path in enumerate(_modules(kernel, version)):
        shutil.copy(path, tree / f"modules/{number:02}-{path.name}")
    names = b"\0".join(bytes(path.relative_to(tree)) for path in sorted(tree.rglob("*")))
    archive = subprocess.run(
        ["cpio", "--create", "--format=newc", "--null", "--quiet"],
        input=names,
        stdout=subprocess.PIPE,
        cwd=tree,
        check=True,
    ).stdout
    packed = folder / "initramfs.cpio"
    packed.write_bytes(archive)
    return packed


def guest_seconds() -> float:
    """Measure the machine's pace, with the load that it has now, and return a limit for a guest's run."""
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", PACE], check=True)
    return max(LEAST_GUEST_SECONDS, GUEST_PACES * (time.monotonic() - begun))


def run_guest(program: Path, job: Path, folder: Path) -> dict[str, Any]:
    """Boot, run a Python program with the directory `job` as its argument, and return what it reported.

    The file `seconds` in that directory has the limit of a step. The program writes lines of JSON,
    `[name, value]`, to its second serial port.
    """
    kernel = kernel_root()
    version = (kernel / "ready").read_text().strip()
    results = folder / "results"
    results.touch()
    environment = f"PYTHON={sys.executable} GUEST={program} JOB={job}"
    command = [
        "qemu-system-x86_64",
        *("-accel", "tcg", "-cpu", "max", "-m", "512", "-smp", "1", "-nic", "none"),
        *("-nographic", "-no-reboot", "-monitor", "none", "-serial", "stdio", "-serial", f"file:{results}"),
        *("-kernel", str(kernel / f"boot/vmlinuz-{version}")),
        *("-initrd", str(_pack_initramfs(kernel, version, folder))),
        *("-append", f"{WORDS} {environment}"),
        *("-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"),
    ]
    limit = guest_seconds()
    (job / "seconds").write_text(f"{limit * STEP:.0f}\n")
    try:
        console = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=limit,
            check=False,
        ).stdout
    except subprocess.TimeoutExpired as late:
        console = (late.stdout or b"") + f"\nstill running after {limit:.0f} s".encode()
    reported = dict(json.loads(line) for line in results.read_text().splitlines() if line.endswith("]"))
    if "end" not in reported:
        text = console.decode(errors="replace")
        pytest.fail(f"the guest reported {sorted(reported)} and no end; its console:\n{text}")
    return reported
