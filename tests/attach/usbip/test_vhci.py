"""Handing a device to the kernel, with a directory in place of sysfs and the test in place of the kernel."""

import errno
import os
import re
import signal
import socket
import struct
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.web.options import WebOptions
from aisrv.attach.usbip import vhci
from aisrv.attach.usbip.vhci import Port, Vhci, VhciError, attached
from aisrv.board import Board
from aisrv.cli.attach import attach_devices, run_attached
from aisrv.cli.main import main
from aisrv.cli.serving import DeviceSet, first_error
from aisrv.device.device import ModelRefused
from aisrv.protocol.usb_descriptors import aisrv_descriptors
from phy.usb.bus import UsbBus
from phy.usb.ep0 import usb_ep0
from phy.usb.taps.fault_plan import Fault, FaultPlan
from phy.usb.taps.faults import FaultyPort
from tests.support.oracles.process_resources import count_descriptors
from tests.support.peers.usbip_host import (
    DEVICE_DESCRIPTOR,
    GET_DEVICE_DESCRIPTOR,
    SET_CONFIGURATION,
    control_in,
    control_out,
    submit_in,
)

# As Linux 6.1 prints it: two ports of each speed, the first one taken.
HEAD = "hub port sta spd dev      sockfd local_busid\n"
ONE_TAKEN = (
    HEAD + "hs  0000 006 003 00010001 000003 1-1\n"
    "hs  0001 004 000 00000000 000000 0-0\n"
    "ss  0002 004 000 00000000 000000 0-0\n"
    "ss  0003 004 000 00000000 000000 0-0\n"
)
FREE_USB3_ONLY = HEAD + "hs  0000 005 000 00000000 000000 0-0\nss  0001 004 000 00000000 000000 0-0\n"


@pytest.fixture
def sysfs(tmp_path: Path) -> Path:
    """A controller whose file `attach` keeps what was written last."""
    for name in ("attach", "detach"):
        (tmp_path / name).touch()
    (tmp_path / "status").write_text(ONE_TAKEN)
    return tmp_path


def refuse(monkeypatch: pytest.MonkeyPatch, *numbers: int) -> list[str]:
    """Let the first writes to the controller fail with these errors; what was written."""
    written: list[str] = []

    def write(self: Vhci, name: str, text: str) -> None:
        _ = self
        written.append(f"{name}: {text}")
        if len(written) <= len(numbers):
            raise OSError(numbers[len(written) - 1], os.strerror(numbers[len(written) - 1]))

    monkeypatch.setattr(Vhci, "write", write)
    return written


# The files.


def test_port_is_read_from_its_line() -> None:
    assert Port.from_line("hs  0014 004 000 00000000 000000 0-0") == Port(14, "hs", 4)


@pytest.mark.parametrize("line", ["", "hs", "hs 0000", "0000 004 000", "hs port sta", "hs 00x0 004 000"])
def test_line_of_an_unknown_format_is_an_error(line: str) -> None:
    with pytest.raises(VhciError, match="unknown format"):
        Port.from_line(line)


def test_attach_gets_port_descriptor_devid_and_high_speed(sysfs: Path) -> None:
    Vhci(sysfs).attach(17, 0x10002)
    assert (sysfs / "attach").read_bytes() == b"1 17 65538 3"


def test_ports_of_further_controllers_count(sysfs: Path) -> None:
    (sysfs / "status").write_text(FREE_USB3_ONLY)
    (sysfs / "status.1").write_text(HEAD + "hs  0016 004 000 00000000 000000 0-0\n")
    assert Vhci(sysfs).attach(17, 0x10001) == 16


def test_without_a_free_port_nothing_is_attached(sysfs: Path) -> None:
    (sysfs / "status").write_text(FREE_USB3_ONLY)
    with pytest.raises(VhciError, match="no high-speed port of vhci_hcd is free"):
        Vhci(sysfs).attach(17, 0x10001)


@pytest.mark.parametrize("text", ["", HEAD])
def test_empty_status_has_no_free_port(sysfs: Path, text: str) -> None:
    (sysfs / "status").write_text(text)
    with pytest.raises(VhciError, match="is free"):
        Vhci(sysfs).attach(17, 0x10001)


def test_port_that_another_program_took_meanwhile_is_passed_over(
    sysfs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (sysfs / "status").write_text(ONE_TAKEN + "hs  0007 004 000 00000000 000000 0-0\n")
    written = refuse(monkeypatch, errno.EBUSY)
    assert Vhci(sysfs).attach(17, 0x10001) == 7
    assert written == ["attach: 1 17 65537 3", "attach: 7 17 65537 3"]


def test_refusal_of_the_kernel_is_an_error(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EINVAL)
    with pytest.raises(VhciError, match=r"refused a device at port 1: .*Invalid argument"):
        Vhci(sysfs).attach(17, 0x10001)


def test_detach_gets_the_port(sysfs: Path) -> None:
    Vhci(sysfs).detach(12)
    assert (sysfs / "detach").read_bytes() == b"12"


def test_detach_of_an_empty_port_is_fine(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = refuse(monkeypatch, errno.EINVAL)
    Vhci(sysfs).detach(1)
    assert written == ["detach: 1"]


def test_detach_that_fails_is_an_error(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EACCES)
    with pytest.raises(VhciError, match="did not detach port 1"):
        Vhci(sysfs).detach(1)


def test_check_passes_where_attach_may_be_written(sysfs: Path) -> None:
    Vhci(sysfs).check()


def test_missing_module_is_named_with_the_command(tmp_path: Path) -> None:
    with pytest.raises(VhciError, match=r"attach does not exist: .* modprobe vhci-hcd"):
        Vhci(tmp_path / "vhci_hcd.0").check()


def test_file_for_root_only_is_named(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(Path, "open", refused)
    with pytest.raises(VhciError, match="by root only; run this command with sudo"):
        Vhci(sysfs).check()


def test_unreadable_status_is_an_error(sysfs: Path) -> None:
    (sysfs / "status").unlink()
    (sysfs / "status").mkdir()
    with pytest.raises(VhciError, match="cannot read the ports"):
        Vhci(sysfs).ports()


# The connection.


class Kernel(Vhci):
    """Takes the socket that it is handed, as the kernel does, and closes it when it is told to detach."""

    def __init__(self, sysfs: Path) -> None:
        super().__init__(sysfs)
        self.written: list[str] = []
        self.sockets: dict[str, trio.socket.SocketType] = {}
        self.taken: list[socket.socket] = []
        self.attached = trio.Event()

    def write(self, name: str, text: str) -> None:
        port, *rest = text.split()
        self.written.append(f"{name} {port}")
        if name == "attach":
            self.attached.set()
            self.taken.append(socket.socket(fileno=os.dup(int(rest[0]))))
            self.sockets[port] = trio.socket.from_stdlib_socket(self.taken[-1])
            status = self._sysfs / "status"
            status.write_text(status.read_text().replace(f"hs  {port:0>4} 004", f"hs  {port:0>4} 006"))
        else:
            self.sockets.pop(port).close()

    async def ask(self, message: bytes, port: str = "1") -> tuple[int, bytes]:
        """Send one request; status and data of its answer."""
        sock = self.sockets[port]
        await sock.send(message)
        answer = bytearray()
        while len(answer) < 48 or (message[12:16] == b"\0\0\0\1" and len(answer) < 48 + actual(answer)):
            piece = await sock.recv(4096)
            assert piece, "the device closed the connection"
            answer += piece
        (status,) = struct.unpack_from(">i", answer, 20)
        return status, bytes(answer[48:])


def actual(answer: bytes | bytearray) -> int:
    """How many bytes a RET_SUBMIT says that it brings."""
    length: int = struct.unpack_from(">I", answer, 24)[0]
    return length


@pytest.fixture
def kernel(sysfs: Path) -> Iterator[Kernel]:
    """The kernel's side; at the end of a test no socket may be left."""
    before = count_descriptors()
    kernel = Kernel(sysfs)
    yield kernel
    for each in kernel.taken:
        each.close()  # outside Trio
    assert count_descriptors() == before


@asynccontextmanager
async def idle_device() -> AsyncIterator[UsbBus]:
    bus = UsbBus(aisrv_descriptors())
    async with trio.open_nursery() as nursery:
        nursery.start_soon(usb_ep0, bus)
        yield bus
        nursery.cancel_scope.cancel()


async def test_kernel_reads_the_device_descriptor(kernel: Kernel) -> None:
    async with idle_device() as bus, attached(bus, 0x10001, kernel):
        assert await kernel.ask(control_in(1, GET_DEVICE_DESCRIPTOR)) == (0, DEVICE_DESCRIPTOR)


async def test_leaving_detaches_once(kernel: Kernel) -> None:
    async with idle_device() as bus, attached(bus, 0x10001, kernel) as plugged:
        pass
    assert kernel.written == ["attach 1", "detach 1"]
    assert plugged.detached.is_set()


async def test_device_is_reset_when_it_is_detached(kernel: Kernel) -> None:
    async with idle_device() as bus:
        async with attached(bus, 0x10001, kernel):
            assert await kernel.ask(control_out(1, SET_CONFIGURATION)) == (0, b"")
            assert bus.configuration == 1
        assert bus.configuration == 0


async def test_detach_by_the_kernel_is_seen(kernel: Kernel) -> None:
    async with idle_device() as bus, attached(bus, 0x10001, kernel) as plugged:
        kernel.sockets.pop("1").close()
        await plugged.detached.wait()
    assert kernel.written == ["attach 1"]


async def test_detach_in_the_middle_of_a_transfer_leaves_no_request(kernel: Kernel) -> None:
    async with idle_device() as bus:
        async with attached(bus, 0x10001, kernel):
            await kernel.ask(control_out(1, SET_CONFIGURATION))
            await kernel.sockets["1"].send(submit_in(2, 512))
            await wait_all_tasks_blocked(0.01)
            assert bus.in_endpoint.pending == 1
        assert bus.in_endpoint.pending == 0


async def test_device_can_be_attached_again(kernel: Kernel, sysfs: Path) -> None:
    async with idle_device() as bus:
        async with attached(bus, 0x10001, kernel):
            pass
        (sysfs / "status").write_text(ONE_TAKEN)
        async with attached(bus, 0x10001, kernel):
            assert await kernel.ask(control_in(1, GET_DEVICE_DESCRIPTOR)) == (0, DEVICE_DESCRIPTOR)


async def test_device_that_leaves_the_bus_is_plugged_in_again(kernel: Kernel, sysfs: Path) -> None:
    (sysfs / "status").write_text(ONE_TAKEN + "hs  0007 004 000 00000000 000000 0-0\n")
    async with idle_device() as bus, trio.open_nursery() as nursery:
        port = FaultyPort(bus, FaultPlan([Fault.parse("disconnect:control:2")]), nursery)
        async with attached(port, 0x10001, kernel) as plugged:
            assert await kernel.ask(control_in(1, GET_DEVICE_DESCRIPTOR)) == (0, DEVICE_DESCRIPTOR)
            kernel.attached = trio.Event()
            await kernel.sockets["1"].send(control_in(2, GET_DEVICE_DESCRIPTOR))
            await kernel.attached.wait()
            await wait_all_tasks_blocked()
            assert (plugged.port, plugged.detached.is_set()) == (7, False)
            assert await kernel.ask(control_in(3, GET_DEVICE_DESCRIPTOR), "7") == (0, DEVICE_DESCRIPTOR)


async def test_device_that_finds_no_port_to_come_back_to_is_detached(kernel: Kernel) -> None:
    async with idle_device() as bus, trio.open_nursery() as nursery:
        port = FaultyPort(bus, FaultPlan([Fault.parse("disconnect:control:1")]), nursery)
        async with attached(port, 0x10001, kernel) as plugged:
            await kernel.sockets["1"].send(control_in(1, GET_DEVICE_DESCRIPTOR))
            await plugged.detached.wait()
    assert kernel.written == ["attach 1"]


def free_port(sysfs: Path, port: int) -> None:
    """Have the kernel free a port, as it does some time after its socket was closed."""
    status = sysfs / "status"
    status.write_text(status.read_text().replace(f"hs  {port:0>4} 006", f"hs  {port:0>4} 004"))


async def test_device_whose_cable_was_out_is_attached_again(kernel: Kernel, sysfs: Path) -> None:
    async with idle_device() as bus, attached(bus, 0x10001, kernel) as plugged:
        for number in (1, 2):
            assert await kernel.ask(control_in(number, GET_DEVICE_DESCRIPTOR)) == (0, DEVICE_DESCRIPTOR)
            bus.unplug()
            await wait_all_tasks_blocked()
            assert await kernel.sockets["1"].recv(1) == b""
            free_port(sysfs, 1)
            assert (plugged.is_in, plugged.detached.is_set()) == (False, False)
            bus.plug()
            await wait_all_tasks_blocked()
            assert (plugged.is_in, plugged.port) == (True, 1)
        assert await kernel.ask(control_in(3, GET_DEVICE_DESCRIPTOR)) == (0, DEVICE_DESCRIPTOR)
    assert kernel.written == ["attach 1"] * 3 + ["detach 1"]


async def test_the_cable_counts_through_ports_that_wrap_the_bus(kernel: Kernel, sysfs: Path) -> None:
    async with idle_device() as bus, trio.open_nursery() as nursery:
        port = FaultyPort(bus, FaultPlan(()), nursery)
        async with attached(port, 0x10001, kernel) as plugged:
            bus.unplug()
            await wait_all_tasks_blocked()
            free_port(sysfs, 1)
            assert not plugged.is_in
            bus.plug()
            await wait_all_tasks_blocked()
            assert await kernel.ask(control_in(1, GET_DEVICE_DESCRIPTOR)) == (0, DEVICE_DESCRIPTOR)


async def test_a_port_that_may_be_anothers_is_not_detached(kernel: Kernel) -> None:
    async with idle_device() as bus, attached(bus, 0x10001, kernel):
        bus.unplug()
        await wait_all_tasks_blocked()
    assert kernel.written == ["attach 1"]


async def test_device_that_fails_while_its_cable_is_out_is_detached(kernel: Kernel) -> None:
    async with idle_device() as bus, attached(bus, 0x10001, kernel) as plugged:
        bus.unplug()
        await wait_all_tasks_blocked()
        assert not plugged.detached.is_set()
        bus.fail()
        await plugged.detached.wait()
    assert kernel.written == ["attach 1"]


@pytest.mark.parametrize("junk", [bytes(48), b"\xff" * 48, b"GET / HTTP/1.1\r\n\r\n".ljust(48)])
async def test_junk_ends_the_connection(kernel: Kernel, junk: bytes) -> None:
    async with idle_device() as bus, attached(bus, 0x10001, kernel) as plugged:
        await kernel.sockets["1"].send(junk)
        await plugged.detached.wait()
        assert await kernel.sockets["1"].recv(1) == b""


async def test_refused_device_leaves_no_socket(sysfs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, errno.EINVAL)
    before = count_descriptors()
    with pytest.raises(VhciError):
        async with attached(UsbBus(aisrv_descriptors()), 0x10001, Vhci(sysfs)):
            raise AssertionError("attached to a controller that refused")
    assert count_descriptors() == before


async def test_kernel_that_never_closes_the_socket_is_not_waited_for(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vhci, "DETACH_SECONDS", 0.01)
    async with idle_device() as bus, attached(bus, 0x10001, kernel):
        held = kernel.sockets["1"]
        kernel.sockets["1"] = trio.socket.from_stdlib_socket(socket.socket())
    assert await held.recv(1) == b""
    held.close()


# The command.


async def test_each_device_gets_a_port_and_a_devid(kernel: Kernel, sysfs: Path) -> None:
    (sysfs / "status").write_text(ONE_TAKEN + "hs  0007 004 000 00000000 000000 0-0\n")
    async with attach_devices(DeviceSet([Board(), Board()]), kernel) as plugged:
        assert [each.port for each in plugged.devices] == [1, 7]
        second = bytearray(control_in(1, GET_DEVICE_DESCRIPTOR))
        second[8:12] = (0x10002).to_bytes(4, "big")
        assert await kernel.ask(bytes(second), "7") == (0, DEVICE_DESCRIPTOR)


async def test_without_a_port_for_each_device_none_stays_attached(kernel: Kernel) -> None:
    message = ""
    try:
        async with attach_devices(DeviceSet([Board(), Board()]), kernel):
            raise AssertionError("attached two devices to one port")
    except* VhciError as errors:
        message = first_error(errors)
    assert "no high-speed port of vhci_hcd is free" in message
    assert kernel.written == ["attach 1", "detach 1"]


async def test_more_models_than_engines_are_refused_before_anything_is_attached(kernel: Kernel) -> None:
    with pytest.raises(ModelRefused, match="2 models for 1 engines"):
        async with attach_devices(DeviceSet([Board()], [Path("a"), Path("b")]), kernel):
            raise AssertionError("attached")
    assert kernel.written == []


@pytest.mark.plain_time("the command says besides how late this machine was")
async def test_command_ends_when_the_kernel_detaches(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_attached, DeviceSet([Board()]), kernel)
        with trio.fail_after(60):
            await kernel.attached.wait()
        await wait_all_tasks_blocked()
        kernel.sockets.pop("1").close()
    assert capsys.readouterr() == (
        "aisrv: attached to vhci_hcd port 1\n",
        "aisrv: vhci_hcd port 1 is detached\n",
    )


async def test_command_goes_on_while_the_page_has_the_cable_out(
    kernel: Kernel, sysfs: Path, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("T")
    async with attach_devices(
        DeviceSet([Board()], added=[WebOptions(0, web_token=token)]), kernel
    ) as plugged:
        port = int(plugged.added[0].place.split(":")[3].rstrip("/"))

        async def do(name: str) -> None:
            async with await trio.open_tcp_stream("127.0.0.1", port) as page:
                head = f"Host: 127.0.0.1:{port}\r\nX-Aisrv-Token: T\r\nContent-Length: 0\r\n"
                await page.send_all(f"POST /do/{name}?device=1-1 HTTP/1.1\r\n{head}\r\n".encode())
                assert (await page.receive_some(64)).startswith(b"HTTP/1.1 200 ")

        await do("unplug")
        assert await kernel.sockets["1"].recv(1) == b""
        free_port(sysfs, 1)
        assert not plugged.devices[0].detached.is_set()
        kernel.attached = trio.Event()
        await do("plug")
        await kernel.attached.wait()
        assert await kernel.ask(control_in(1, GET_DEVICE_DESCRIPTOR)) == (0, DEVICE_DESCRIPTOR)


async def test_command_serves_a_page_that_shows_what_is_attached(
    kernel: Kernel, capsys: pytest.CaptureFixture[str]
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(run_attached, DeviceSet([Board()], added=[WebOptions(web=0)]), kernel)
        with trio.fail_after(60):
            await kernel.attached.wait()
        await wait_all_tasks_blocked()
        out, hint = capsys.readouterr()
        found = re.fullmatch(r"aisrv: attached to vhci_hcd port 1, web:(http://127\.0\.0\.1:(\d+)/)\n", out)
        assert found, out
        assert re.fullmatch(rf"aisrv: open {found[1]}#[-\w]{{32}}\n", hint)
        async with await trio.open_tcp_stream("127.0.0.1", int(found[2])) as page:
            await page.send_all(b"GET / HTTP/1.1\r\nHost: 127.0.0.1:%s\r\n\r\n" % found[2].encode())
            assert (await page.receive_some(64)).startswith(b"HTTP/1.1 200 ")
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
async def test_command_detaches_at_a_signal(kernel: Kernel, number: signal.Signals, code: int) -> None:
    codes = []

    async def run() -> None:
        codes.append(await run_attached(DeviceSet([Board()]), kernel))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(run)
        with trio.fail_after(60):
            await kernel.attached.wait()
        await wait_all_tasks_blocked()
        signal.raise_signal(number)
    assert kernel.written == ["attach 1", "detach 1"]
    assert codes == [code]


def test_command_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aisrv.cli.attach.Vhci", lambda: Vhci(tmp_path / "none"))
    result = CliRunner().invoke(main, ["attach"])
    assert (result.exit_code, result.output.partition(":")[0]) == (1, "Error")
    assert "modprobe vhci-hcd" in result.output
