"""Runs in the guest: plugs a device into its kernel, runs host programs, reports what they saw.

Reports are lines of JSON, `[name, value]`, on the second serial port.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
JOB = Path(sys.argv[1])
STATUS = Path("/sys/devices/platform/vhci_hcd.0/status")
FREE, IN_USE = "004", "006"
SECONDS = float((JOB / "seconds").read_text())
RESULTS = Path("/dev/ttyS1").open("w")  # noqa: SIM115 - until the end

READ = f"read:512:{SECONDS * 1000:.0f}"
GET_ID, NO_COMMAND = "bytes:100000", "bytes:7f0000"
FIRST_STEPS = ("speed", "config:1", "claim", GET_ID, READ, "read:512:200")
STALL_STEPS = (NO_COMMAND, READ, GET_ID, "clear:1", "clear:0x81", GET_ID, READ)
LAST_STEPS = ("cancel:512", "reset", GET_ID, READ, "release")

PACKAGES = JOB / "packages"
sys.path.append(str(PACKAGES))
os.environ["PYTHONPATH"] = str(PACKAGES)
PACKAGE = find_spec("spidev")
SPIDEV = Path("/dev/spidev0.0")
SPIDEV_PROGRAM = ROOT / "tests/support/peers/spidev_program.py"
SPIDEV_STEPS = (
    *("write=3", "read=5", "read=4096", "read=4097", "write=4097", "write=10000", "message=3t+5r"),
    *("message=3tc+5rc", "read=1", "message=3t2r", "message=4096tr", "message=4097t"),
    *("message=8b9", "many=0", "many=127", "get=0x80016b03", "put=0x40046b04:0", "put=0x40016b01:8"),
    *("ioctl=0x6b07:0", "ioctl=0x40216b00:0", "ioctl=0x40206b00:8", "ioctl=0x80016b01:8", "pointers=8:0:3"),
    *("pointers=0:8:3", "writefrom=8:3", "readto=8:3", "read=2"),
)


def report(name: str, value: object) -> None:
    print(json.dumps([name, value]), file=RESULTS, flush=True)


def run(*command: str | Path) -> str:
    """What a program printed, with its errors and its exit code where that is not 0."""
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=SECONDS, check=False
    )
    return done.stdout + (f"exit code {done.returncode}\n" if done.returncode else "")


def device_files() -> list[Path]:
    """The directory of each xAISRV in sysfs."""
    found = Path("/sys/bus/usb/devices").glob("*/product")
    return [path.parent for path in found if path.read_text().strip() == "xAISRV"]


def wait_until(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def state_of(port: int) -> str:
    """What the kernel says of a port."""
    return next(line.split()[2] for line in STATUS.read_text().splitlines() if f" {port:04} " in line)


@contextmanager
def attached(name: str, ending: signal.Signals, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "aisrv", "attach", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout is not None
    report(f"{name}: line", process.stdout.readline())
    wait_until(lambda: device_files() and state_of(0) == IN_USE)
    report(f"{name}: state", state_of(0))
    yield process
    process.send_signal(ending)
    output, _ = process.communicate(timeout=SECONDS)
    report(f"{name}: end", [process.returncode, output])
    report(f"{name}: freed", wait_until(lambda: state_of(0) == FREE and not device_files()))


def report_lines(name: str, text: str) -> None:
    """Report each line of a program, a name and JSON with a tab between; any other line is an error of it."""
    errors = []
    for line in text.splitlines():
        step, tab, value = line.partition("\t")
        if tab:
            report(f"{name}: {step}", json.loads(value))
        else:
            errors.append(line)
    report(f"{name}: errors", errors)


def pyusb(step: str) -> list[str | Path]:
    return [sys.executable, HERE / "pyusb_program.py", step, JOB]


def start_waiting() -> subprocess.Popen[str]:
    """A program that is in the middle of a transfer."""
    program = subprocess.Popen(pyusb("wait"), stdout=subprocess.PIPE, text=True)
    assert program.stdout is not None
    program.stdout.readline()
    time.sleep(0.5)  # until its request is with the device
    return program


def over_tcp() -> None:
    """The same by the kernel's own tool; the guest's loopback is the only network there is."""
    command = [sys.executable, "-m", "aisrv", "run"]
    attach = ("usbip", "attach", "-r", "127.0.0.1", "-b", "1-1")
    detach = ("usbip", "detach", "-p", "0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        server.stdout.readline()
        run(*attach)
        report("tcp: plugged in", wait_until(device_files))
        waiting = start_waiting()
        run(*detach)
        report_lines("interrupted over TCP", waiting.communicate(timeout=SECONDS)[0])
        wait_until(lambda: state_of(0) == FREE and not device_files())
        run(*attach)
        wait_until(device_files)
        report_lines("tcp", run(*pyusb("again")))
        run(*detach)
        report("tcp: freed", wait_until(lambda: state_of(0) == FREE and not device_files()))
        server.terminate()


@contextmanager
def spidev_served() -> Iterator[None]:
    """A slave that echoes, as a device of the kernel's."""
    command = [sys.executable, "-m", "tests.guest.spidev_server"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=ROOT)
    assert process.stdout is not None
    report("spidev: line", process.stdout.readline())
    yield
    process.send_signal(signal.SIGINT)
    report("spidev: end", process.communicate(timeout=SECONDS)[0])


def over_spi() -> None:
    """Host programs on spidev; the same that the preload server is tested with."""
    with spidev_served():
        report("spidev: node", SPIDEV.is_char_device())
        if PACKAGE:
            report_lines("spidev", run(sys.executable, SPIDEV_PROGRAM, "sizes", "settings"))
        report("spidev: client", run(JOB / "spidev_client", *SPIDEV_STEPS).splitlines())
        hanging = subprocess.Popen([JOB / "spidev_client", "message=3tc", "hang"], stdout=subprocess.PIPE)
        assert hanging.stdout is not None
        hanging.stdout.readline()
        hanging.stdout.readline()
        hanging.kill()
        hanging.communicate()
        report("spidev: after a kill", run(JOB / "spidev_client", "read=3").strip())
        report("spidev: bench", run(JOB / "spidev_client", "bench=200:4").strip())
    report("spidev: gone", wait_until(lambda: not SPIDEV.exists()))


def main() -> None:
    report("kernel's words", Path("/proc/cmdline").read_text())
    report("package spidev", PACKAGE and PACKAGE.origin)
    if not PACKAGE:
        report("why there is no spidev", (PACKAGES / "why-not").read_text()[-300:])
    with attached("first", signal.SIGINT):
        with Path("/tmp/usbmon").open("wb") as log:
            monitor = subprocess.Popen(["cat", "/sys/kernel/debug/usb/usbmon/0u"], stdout=log)
            report("descriptors", (device_files()[0] / "descriptors").read_bytes().hex())
            report("lsusb", run("lsusb", "-v", "-d", "20b1:a15e"))
            report_lines("pyusb", run(*pyusb("everything")))
            monitor.kill()
            monitor.wait()
        lines = Path("/tmp/usbmon").read_text().splitlines()
        report("usbmon", [line for line in lines if " S Bo:" in line and " 4194304 " in line])
        report("libusb", run(JOB / "client", *FIRST_STEPS, *STALL_STEPS, *LAST_STEPS).splitlines())
        waiting = start_waiting()
    report_lines("interrupted", waiting.communicate(timeout=SECONDS)[0])
    with attached("second", signal.SIGKILL):
        report_lines("again", run(*pyusb("again")))
    with attached("third", signal.SIGTERM, "--spidev"):
        report_lines("after a kill", run(*pyusb("again")))
        if PACKAGE:
            script = "import spidev; print(spidev.SpiDev(0, 0).xfer2([0x10] + [0] * 6))"
            report("third: id over SPI", run(sys.executable, "-c", script).strip())
    report("third: spidev gone", wait_until(lambda: not SPIDEV.exists()))
    over_tcp()
    over_spi()


try:
    main()
    report("end", None)
except Exception as error:
    report("failure", repr(error))
    raise
