"""Unmodified programs on libusb reach the device by preload: in C, lsusb, Python with the system's libusb."""

import os
import subprocess
import sys
from errno import ENODEV, ENOENT
from functools import partial
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.attach.preload import server as preload_module
from aisrv.attach.preload.root_hub import MOST_DEVICES
from aisrv.attach.preload.server import Preload, serve_preload
from aisrv.attach.preload.trial import PreloadError, PreloadMissingError
from aisrv.cli.exec import exec_, is_python
from aisrv.device.device import open_device
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from tests.support.benches.usb_firmware import idle, loopback, source
from tests.support.oracles.process_resources import count_descriptors, count_tasks
from tests.support.peers.preloaded_usb import (
    CLAIM,
    PROGRAM_SECONDS,
    assert_unused,
    compiled,
    libusb_program,
    preloaded,
)
from tests.support.programs import AISRV, missing, run_process

__all__ = ["libusb_program"]

PIPE, TIMEOUT, NO_DEVICE, BUSY, NOT_FOUND, IO = -9, -7, -4, -6, -5, -1
CANCELLED = 3


async def halt(bus: UsbBus) -> None:
    """Halt both endpoints, then send back what comes."""
    bus.in_endpoint.halt()
    bus.out_endpoint.halt()
    await bus.out_endpoint.wait_halt_cleared()
    await bus.in_endpoint.wait_halt_cleared()
    await loopback(bus)


# A C program.


async def test_transfer_there_and_back(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        lines = await server.run(libusb_program, "claim", "bytes:0102fe", "read:512:5000", "release")
    assert lines == ["claim 0", "bytes 0 3", "read 0 3 0102fe", "release 0"]


@pytest.mark.parametrize("size", [1, 3, 4, 511, 513, 1023, 1025, 16385, 65537])
async def test_sizes(libusb_program: Path, size: int) -> None:
    async with preloaded(loopback) as server:
        written, read = await server.run(libusb_program, f"write:1:{size}:5000", "read:70000:5000")
    assert written.startswith(f"write 0 {size} sum=")
    assert read.startswith(f"read 0 {size} ")
    if size > 64:
        assert written.split()[-1] == read.split()[-1]


async def test_four_mebibytes_in_one_write(libusb_program: Path) -> None:
    size = 4 << 20
    async with preloaded(loopback) as server:
        lines = await server.run(
            libusb_program, f"zlp:{size}", f"read:{size + 512}:9000", f"write:1:{size}:9000"
        )
    assert lines[0] == f"zlp 0 {size}"
    assert lines[1].split()[:3] == ["read", "0", str(size)]
    assert lines[1].split()[-1] == lines[2].split()[-1]


async def test_more_than_usbfs_holds_is_refused_and_harms_nothing(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        lines = await server.run(libusb_program, f"write:1:{16 << 20}:5000", "bytes:07", "read:512:5000")
    assert lines[0].split()[:3] == ["write", "-11", "0"]  # LIBUSB_ERROR_NO_MEM
    assert lines[1:] == ["bytes 0 1", "read 0 1 07"]


async def test_zero_packet_ends_a_transfer(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        lines = await server.run(
            libusb_program, "zlp:1024", "read:2048:5000", "write:1:0:5000", "read:512:5000"
        )
    assert lines[0] == "zlp 0 1024"
    assert lines[1].startswith("read 0 1024 sum=")
    assert lines[2:] == ["write 0 0 sum=0", "read 0 0 "]


async def test_full_packets_do_not_end_a_transfer(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        lines = await server.run(
            libusb_program, "write:1:512:5000", "read:512:100", "bytes:01", "read:1024:5000"
        )
    assert lines[1:3] == [f"read {TIMEOUT} 0 ", "bytes 0 1"]
    assert lines[3].startswith("read 0 513 sum=")


async def test_time_out_leaves_the_device_usable(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        lines = await server.run(libusb_program, "read:512:50", "bytes:aa", "read:512:5000")
    assert lines == [f"read {TIMEOUT} 0 ", "bytes 0 1", "read 0 1 aa"]


async def test_write_that_nobody_takes_times_out(libusb_program: Path) -> None:
    async with preloaded(idle) as server:
        lines = await server.run(libusb_program, "write:1:1000:50")
        assert server.bus.out_endpoint.pending == 0
    assert lines[0].startswith(f"write {TIMEOUT} 0 ")


async def test_stall_and_clear_halt(libusb_program: Path) -> None:
    async with preloaded(halt) as server:
        lines = await server.run(
            libusb_program,
            *("bytes:01", "read:512:1000", "clear:0x01", "clear:0x81", "bytes:01", "read:512:1000"),
        )
    assert lines == [f"bytes {PIPE} 0", f"read {PIPE} 0 ", "clear 0", "clear 0", "bytes 0 1", "read 0 1 01"]


async def test_reset_clears_halts_and_keeps_the_configuration(libusb_program: Path) -> None:
    async with preloaded(halt) as server:
        server.bus.out_endpoint.halt()
        lines = await server.run(libusb_program, "bytes:01", "reset", "control:0x80:8:0:0:1")
    assert lines == [f"bytes {PIPE} 0", "reset 0", "control 1 1 01"]


async def test_cancelled_request(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        lines = await server.run(libusb_program, "cancel:512", "bytes:55", "read:512:1000")
    assert lines == ["cancelling 0", f"cancelled {CANCELLED} 0", "bytes 0 1", "read 0 1 55"]


async def test_control_transfers(libusb_program: Path) -> None:
    async with preloaded(idle) as server:
        lines = await server.run(
            libusb_program,
            "control:0x80:6:0x100:0:18",
            "control:0x80:6:0x100:0:8",
            "control:0x80:6:0x300:0:255",
            "control:0x80:6:0x309:0:255",
            "control:0x02:3:0:0x81:0",
            "control:0x82:0:0:0x81:2",
        )
    assert lines == [
        "control 18 18 12010002ffffff40b1205ea1001001020001",
        "control 8 8 12010002ffffff40",
        "control 4 4 04030904",
        f"control {PIPE} 0 ",
        "control 0 0 ",
        "control 2 2 0100",
    ]


async def test_what_else_programs_ask_the_kernel(libusb_program: Path) -> None:
    async with preloaded(idle) as server:
        lines = await server.run(
            libusb_program, "driver", "detach", "speed", "config:1", "claim", "setting:0", "setting:1"
        )
    assert lines == [
        "driver 0",
        f"detach {NOT_FOUND}",
        "speed 3",  # LIBUSB_SPEED_HIGH
        "config 0",
        "claim 0",
        "setting 0",
        f"setting {NOT_FOUND}",
    ]


async def test_endpoint_that_is_not_there(libusb_program: Path) -> None:
    async with preloaded(idle) as server:
        lines = await server.run(libusb_program, "write:2:5:100", "clear:0x02")
    assert lines[0].startswith(f"write {IO} 0 ")
    assert lines[1] == f"clear {NOT_FOUND}"


async def test_two_threads_at_once(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        assert await server.run(libusb_program, "threads:300") == ["threads 0 0"]


async def test_waiting_client_is_idle(libusb_program: Path) -> None:
    async with preloaded(idle) as server:
        (line,) = await server.run(libusb_program, "idle:1000")
    name, result, cpu_seconds = line.split()
    assert (name, result) == ("idle", str(TIMEOUT))
    assert float(cpu_seconds) < 0.02


async def test_waiting_server_is_idle(libusb_program: Path) -> None:
    async with preloaded(idle) as server:
        counter = _StepCounter()
        trio.lowlevel.add_instrument(counter)
        await server.run(libusb_program, "read:512:700")
        trio.lowlevel.remove_instrument(counter)
    assert counter.steps < 300


class _StepCounter(trio.abc.Instrument):
    def __init__(self) -> None:
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += 1


async def test_second_client_may_not_claim_what_another_has(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        first = await server.open()
        first.memory[0x100] = bytes(4)
        assert await first.ioctl(CLAIM, 0x100) == (0, 0)
        assert await server.run(libusb_program, "claim", "control:0x80:8:0:0:1") == [
            f"claim {BUSY}",
            "control 1 1 01",
        ]
        await first.close()
        assert await server.run(libusb_program, "claim") == ["claim 0"]


async def test_device_that_the_host_of_another_attachment_unplugged_is_configured_for_the_next(
    libusb_program: Path,
) -> None:
    async with preloaded(loopback) as server:
        server.bus.reset()
        assert await server.run(libusb_program, "bytes:01", "read:512:1000") == ["bytes 0 1", "read 0 1 01"]


async def test_device_that_leaves_its_bus(libusb_program: Path) -> None:
    async with preloaded(loopback) as server, trio.open_nursery() as nursery:
        lines: list[str] = []

        async def host() -> None:
            lines.extend(await server.run(libusb_program, "read:512:0", "bytes:01"))

        nursery.start_soon(host)
        while not server.bus.in_endpoint.pending:
            await wait_all_tasks_blocked(0.01)
        server.bus.unplug()
    assert lines == [f"read {NO_DEVICE} 0 ", f"bytes {NO_DEVICE} 0"]


async def test_clients_killed_at_any_moment_leave_nothing(libusb_program: Path) -> None:
    async with preloaded(loopback) as server:
        tasks, files = count_tasks(), count_descriptors()
        for number in range(25):
            process = await trio.lowlevel.open_process(
                [os.fspath(libusb_program), f"loop:{(number * 997 + 1) % 100_000}"],
                env=server.preload.environment(),
                stdout=subprocess.DEVNULL,
            )
            with trio.move_on_after(0.002 * number):
                await process.wait()
            process.kill()
            await process.wait()
            process._close_pidfd()
            while server.node.files:
                await wait_all_tasks_blocked(0.001)
            assert_unused(server)
        await wait_all_tasks_blocked(0.001)  # a connection's task ends a moment after its file is closed
        assert (count_tasks(), count_descriptors()) == (tasks, files)
        lines = await server.run(libusb_program, "reset", "bytes:0506", "read:512:1000")
    assert lines == ["reset 0", "bytes 0 2", "read 0 2 0506"]


async def test_long_read(libusb_program: Path) -> None:
    async with preloaded(source) as server:
        (line,) = await server.run(libusb_program, "read:8388608:5000")
    assert line == "read 0 8388608 sum=0"


# A cable that is pulled and put in again.


async def test_hotplug_says_that_the_device_leaves_and_comes_with_another_address(
    libusb_program: Path,
) -> None:
    async with preloaded(loopback) as server, trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                [os.fspath(libusb_program), "hotplug:4", "bytes:01"],
                env=server.preload.environment(),
                stdout=subprocess.PIPE,
            )
        )
        lines = Lines(process)
        assert await lines.next() == "hotplug 0"
        for number in (2, 3):
            server.bus.unplug()
            assert await lines.next() == f"left {number}"
            server.bus.plug()
            assert await lines.next() == f"arrived {number + 1}"
        # the device that it has open stays gone
        assert await lines.next() == f"bytes {NO_DEVICE} 0"
        await lines.end()


KEEP_OPEN = """
import sys, usb.core
def say(text):
    print(text, flush=True)
    sys.stdin.readline()
def end_of(function, *arguments):
    try:
        function(*arguments)
    except usb.core.USBError as error:
        return error.errno
find = lambda: usb.core.find(idVendor=0x20B1, idProduct=0xA15E)
first = find()
first.write(1, b"abc")
say((first.address, bytes(first.read(0x81, 512))))
say(("write", end_of(first.write, 1, b"x"), "reset", end_of(first.reset), "find", find()))
second = find()
second.write(1, b"def")
say((second.address, bytes(second.read(0x81, 512)), "write", end_of(first.write, 1, b"x")))
"""


async def test_python_that_keeps_its_device_open_finds_the_new_one_beside_it(tmp_path: Path) -> None:
    script = tmp_path / "tool.py"
    script.write_text(KEEP_OPEN)
    async with preloaded(loopback) as server, trio.open_nursery() as nursery:
        process = await nursery.start(
            partial(
                trio.run_process,
                [sys.executable, script],
                env=server.preload.environment(),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        )
        lines = Lines(process)
        assert await lines.next() == "(2, b'abc')"
        server.bus.unplug()
        while not server.node.unplugged:
            await wait_all_tasks_blocked(0.01)
        await process.stdin.send_all(b"\n")
        # What libusb's reset says depends on whether its own thread has heard of the unplugging yet.
        assert await lines.next() in {
            f"('write', {ENODEV}, 'reset', {e}, 'find', None)" for e in (ENODEV, ENOENT)
        }
        server.bus.plug()
        while server.node.unplugged:
            await wait_all_tasks_blocked(0.01)
        await process.stdin.send_all(b"\n")
        assert await lines.next() == f"(3, b'def', 'write', {ENODEV})"
        await process.stdin.aclose()
        await lines.end()


class Lines:
    """What a program prints, line by line."""

    def __init__(self, process: trio.Process) -> None:
        self._process = process
        self._held = b""

    async def next(self) -> str:
        assert self._process.stdout is not None
        with trio.fail_after(PROGRAM_SECONDS):
            while b"\n" not in self._held:
                piece = await self._process.stdout.receive_some()
                assert piece, "the program has ended"
                self._held += piece
        line, _, self._held = self._held.partition(b"\n")
        return line.decode()

    async def end(self) -> None:
        """Wait until the program has closed its output."""
        assert self._process.stdout is not None
        with trio.fail_after(PROGRAM_SECONDS):
            assert await self._process.stdout.receive_some() == b""
        await self._process.stdout.aclose()


# Python with the system's libusb.

FIND_AND_LOAD = """
import struct, sys, usb.core, usb.backend.libusb1
assert usb.backend.libusb1.get_backend().__module__ == "usb.backend.libusb1"
device = usb.core.find(product="xAISRV")
device.default_timeout = 30_000
device.set_configuration()
(out, into) = usb.util.find_descriptor(device.get_active_configuration()).endpoints()
out.write(bytes((0x86, 0, 0)))
model = open(sys.argv[1], "rb").read()
out.write(model)
if len(model) % 512 == 0:
    out.write(b"")
out.write(bytes((0x10, 0, 0)))
(identity,) = struct.unpack("<I", bytes(into.read(512)))
print(hex(identity), device.manufacturer, device.serial_number)
"""


async def test_python_finds_the_device_by_its_product_and_loads_a_model(tmp_path: Path) -> None:
    model = tmp_path / "model.tflite"
    model.write_bytes(digits.model_bytes())
    script = tmp_path / "tool.py"
    script.write_text(FIND_AND_LOAD)
    async with open_device() as device, trio.open_nursery() as nursery:
        try:
            preload: Preload = await nursery.start(serve_preload, [device.usb])
        except PreloadMissingError as error:
            missing(str(error))
        with trio.fail_after(20):
            done = await trio.run_process(
                [sys.executable, script, model],
                env=preload.environment(),
                capture_stdout=True,
                stderr=subprocess.STDOUT,
                check=False,
            )
        assert done.stdout.decode() == "0x12345678 XMOS None\n"
        assert device.engines[0].inference.model is not None
        nursery.cancel_scope.cancel()


# The server.


def test_environment_keeps_what_was_preloaded(tmp_path: Path) -> None:
    preload = Preload(tmp_path, [])
    assert preload.environment({"LD_PRELOAD": "a.so b.so", "HOME": "/h"}) == {
        "HOME": "/h",
        "LD_PRELOAD": "libumockdev-preload.so.0:a.so:b.so",
        "UMOCKDEV_DIR": str(tmp_path),
    }
    once = preload.environment({})
    assert preload.environment(once) == once


async def test_two_devices_are_told_apart_by_their_serial_numbers() -> None:
    async with trio.open_nursery() as nursery:
        buses = [UsbBus(aisrv_descriptors(serial)) for serial in ("LAB-1", "LAB-2")]
        for bus in buses:
            nursery.start_soon(usb_ep0, bus)
        try:
            preload = await nursery.start(serve_preload, buses)
        except PreloadMissingError as error:
            missing(str(error))
        found = "usb.core.find(find_all=True, product='xAISRV')"
        code = f"import usb.core; print(sorted(d.serial_number for d in {found}))"
        done = await trio.run_process(
            [sys.executable, "-c", code], env=preload.environment(), capture_stdout=True
        )
        nursery.cancel_scope.cancel()
    assert done.stdout == b"['LAB-1', 'LAB-2']\n"


async def test_more_devices_than_a_bus_holds() -> None:
    ports = [UsbBus(aisrv_descriptors())] * (MOST_DEVICES + 1)
    with pytest.raises(PreloadError, match="127 devices, but preload's bus has room for 126"):
        await serve_preload(ports)


async def _refusal(monkeypatch: pytest.MonkeyPatch, library: Path) -> PreloadError:
    descriptors = count_descriptors()
    monkeypatch.setattr(preload_module, "LIBRARY", os.fspath(library))
    bus = UsbBus(aisrv_descriptors())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(usb_ep0, bus)
        with pytest.raises(PreloadError) as raised:
            await nursery.start(serve_preload, [bus])
        nursery.cancel_scope.cancel()
    assert count_descriptors() == descriptors
    return raised.value


async def test_library_that_is_missing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    error = await _refusal(monkeypatch, tmp_path / "nowhere.so.0")
    assert type(error) is PreloadMissingError
    assert str(error).endswith("is not installed; install the package umockdev")


async def test_library_that_speaks_another_protocol(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    source = tmp_path / "other.c"
    source.write_text("int aisrv_other_protocol;\n")
    library = compiled(source, tmp_path / "libumockdev-preload.so.0", "-shared", "-fPIC")
    error = await _refusal(monkeypatch, library)
    assert type(error) is PreloadError
    assert "speaks another protocol than that of umockdev 0.16 to 0.19" in str(error)


async def test_directory_goes_with_the_server() -> None:
    async with preloaded(idle) as server:
        assert server.preload.directory.stat().st_mode & 0o077 == 0
        longest = os.fspath(server.preload.directory / "ioctl") + "//dev/bus/usb/001/127"
        assert len(longest) < 108


# aisrv exec.


def _exec(*command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    return run_process([*AISRV, "exec", "--", *command], env={**os.environ, **variables})


def test_exec_serves_a_program_in_c(libusb_program: Path) -> None:
    done = _exec(os.fspath(libusb_program), "bytes:100000", "read:512:5000")
    if "is not installed" in done.stderr:
        missing(done.stderr)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == ["bytes 0 3", "read 0 4 78563412"]


BACKEND = "import usb.backend.libusb1 as b; print(type(b.get_backend()).__name__)"
NO_LIBUSB = """
import usb.libloader
def load_locate_library(*arguments):
    raise usb.libloader.LibraryNotFoundException("none")
usb.libloader.load_locate_library = load_locate_library
"""


def test_exec_gives_pyusb_the_libusb_that_is_there() -> None:
    unserved = _exec("true").stderr
    if unserved:
        missing(unserved)
    done = _exec(sys.executable, "-c", BACKEND)
    assert (done.stdout, done.stderr) == ("_LibUSB\n", "")


def test_exec_gives_pyusb_our_backend_where_there_is_no_libusb() -> None:
    done = _exec(sys.executable, "-c", NO_LIBUSB + BACKEND)
    assert (done.stdout, done.stderr) == ("UsbipBackend\n", "")


@pytest.mark.parametrize(("program", "level"), [("sh", "WARNING"), ("python3", "INFO")])
def test_exec_without_the_library_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, program: str, level: str
) -> None:
    monkeypatch.setattr(preload_module, "LIBRARY", "nowhere.so.0")
    caplog.set_level("INFO", "aisrv.cli.exec")
    code = (
        CliRunner().invoke(exec_, ["--", program, "-c", "exit(3)" if program != "sh" else "exit 3"]).exit_code
    )
    assert code == 3
    (record,) = [record for record in caplog.records if record.name == "aisrv.cli.exec"]
    assert record.levelname == level
    assert record.getMessage() == (
        "nowhere.so.0 is not installed; install the package umockdev; "
        "without it only Python programs on pyusb and spidev find the device"
    )


@pytest.mark.parametrize(
    ("name", "text", "python"),
    [
        ("tool", "#!/usr/bin/env python3\n", True),
        ("tool", "#! /opt/venv/bin/python -P\n", True),
        ("tool", "#!/bin/sh\npython tool.py\n", False),
        ("tool", "", False),
        ("python3.12", "", True),
    ],
)
def test_python_programs_are_known(tmp_path: Path, name: str, text: str, python: bool) -> None:
    program = tmp_path / name
    program.write_text(text)
    program.chmod(0o755)
    assert is_python(str(program)) is python


def test_program_that_is_not_there_is_no_python() -> None:
    assert not is_python("/nowhere/tool")
