"""A USB device in C, which uses all of xud.h, with a host on pyusb; and what goes wrong in such programs."""

import struct
import sys
from collections.abc import Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import trio
import usb.core
import usb.util
from trio.testing import MockClock, wait_all_tasks_blocked
from usb.backend import libusb1

from aisrv.addons.firmware.board import CTaskSpec
from aisrv.addons.firmware.compiler import CompileError, Program, Unit, build
from aisrv.addons.firmware.whole_program import TRAPPED
from aisrv.attach.background import BackgroundDevice
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board, EngineSpec
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.usb_descriptors import Recipient, SetupPacket, StandardRequest
from aisrv.xcore.traps import Trap
from host_tools.standins.pyusb_backend import get_backend
from phy.usb.urb import TransferStatus
from tests.support.benches.c_programs import CASE, COMPILERS, kept_folder, need_compiler, one_of, run_c
from tests.support.benches.device_time import on_virtual_time
from tests.support.benches.simulation import sole_error
from tests.support.manual_page import Page
from tests.support.paths import ROOT
from tests.support.peers.usb_host import pattern
from tests.support.programs import AISRV, run_process

SOURCE = ROOT / "tests/addons/firmware/programs/usb_device.c"
STORE, LOAD, STALL, COUNTS, SEND, LEAVE, HANG, WRONG, CLEAR = range(1, 10)
TO_DEVICE, TO_HOST = 0x40, 0xC0
SIZES = (0, 1, 3, 63, 64, 511, 512)
"""Lengths of one packet."""
SECONDS = 5
TIMEOUT = 1000 * SECONDS


class Counts(NamedTuple):
    """What the device has counted."""

    packets: int
    bytes: int
    resets: int
    select_packets: int
    kills: int


def board_of(*sources: Path, function: str = "usb_device", **settings: Any) -> Board:
    task = CTaskSpec("usb", c=sources, tile=1, function=function, **settings)
    return Board(engines=(EngineSpec(arena_bytes=1024),), spi=None, tasks=(task,), usb_task="usb")


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    need_compiler()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", kept_folder(tmp_path_factory))
        with BackgroundDevice(board_of(SOURCE)) as background:
            yield background.usbip_address


@pytest.fixture
def device(address: str) -> Iterator[usb.core.Device]:
    found = usb.core.find(idVendor=0x1209, idProduct=0x0002, backend=get_backend(address))
    found.set_configuration()
    found.set_interface_altsetting(1, 1)
    yield found
    usb.util.dispose_resources(found)


def counts(device: usb.core.Device) -> Counts:
    return Counts(*struct.unpack("<5I", device.ctrl_transfer(TO_HOST, COUNTS, 0, 0, 64, TIMEOUT)))


def stalls(error: usb.core.USBError) -> bool:
    return bool(error.backend_error_code == libusb1.LIBUSB_ERROR_PIPE)


# What a host learns of it.


def test_the_host_sees_the_descriptors_of_the_program(device: usb.core.Device) -> None:
    assert (device.bcdDevice, device.manufacturer, device.product) == (0x1234, "Maker", "All of XUD")
    assert device.serial_number == "0042"
    (configuration,) = device
    assert (configuration.bConfigurationValue, configuration.bmAttributes) == (1, 0xC0)
    settings = [(each.bInterfaceNumber, each.bAlternateSetting) for each in configuration]
    assert settings == [(0, 0), (1, 0), (1, 1)]
    addresses = [[endpoint.bEndpointAddress for endpoint in each] for each in configuration]
    assert addresses == [[0x01, 0x81, 0x02, 0x82], [], [0x03, 0x83, 0x04, 0x84]]


DEVICE, CONFIGURATION, STRING, QUALIFIER, OTHER_SPEED = 1, 2, 3, 6, 7
HEAD = bytes((9, 2, 97, 0, 2, 1, 4, 0xC0, 50))
DESCRIPTORS = {
    (DEVICE, 0): bytes.fromhex("12010002ffffff4009120200341201020301"),
    (STRING, 0): bytes((4, 3, 9, 4)),
    (STRING, 3): bytes((10, 3)) + "0042".encode("utf-16-le"),
    (QUALIFIER, 0): bytes.fromhex("0a060002ffffff400100"),
}


@pytest.mark.parametrize("kind", DESCRIPTORS)
@pytest.mark.parametrize("length", [1, 2, 8, 255])
def test_descriptors_as_long_as_the_host_asks(
    device: usb.core.Device, kind: tuple[int, int], length: int
) -> None:
    got = device.ctrl_transfer(0x80, 6, kind[0] << 8 | kind[1], 0, length, TIMEOUT)
    assert bytes(got) == DESCRIPTORS[kind][:length]


def test_the_configuration_at_either_speed(device: usb.core.Device) -> None:
    whole = bytes(device.ctrl_transfer(0x80, 6, CONFIGURATION << 8, 0, 255, TIMEOUT))
    other = bytes(device.ctrl_transfer(0x80, 6, OTHER_SPEED << 8, 0, 255, TIMEOUT))
    assert (len(whole), whole[:9], whole[-5:]) == (97, HEAD, bytes((5, 0x41, 1, 2, 3)))
    assert other == whole[:1] + bytes((OTHER_SPEED,)) + whole[2:]


REFUSED = {
    "a descriptor that is not there": (0x80, 6, 9 << 8, 0, 8),
    "a second configuration": (0x80, 6, CONFIGURATION << 8 | 1, 0, 9),
    "a string that is not there": (0x80, 6, STRING << 8 | 5, 0x409, 255),
    "SET_DESCRIPTOR": (0x00, 7, DEVICE << 8, 0, b"x"),
    "a configuration of another number": (0x00, 9, 2, 0, None),
    "a setting that is not there": (0x01, 11, 2, 1, None),
    "an endpoint that is not there": (0x82, 0, 0, 0x85, 2),
    "a halt of one that is not there": (0x02, 3, 0, 0x05, None),
    "another feature": (0x02, 3, 1, 0x81, None),
    "a test mode": (0x00, 3, 2, 0x0400, None),
    "SYNCH_FRAME": (0x82, 12, 0, 0x81, 2),
    "an address past 127": (0x00, 5, 128, 0, None),
    "data where there are none": (0x00, 9, 1, 0, b"data"),
    "a class request": (0x21, 10, 0, 0, None),
    "a vendor request": (TO_HOST, 99, 0, 0, 8),
    "more than it takes": (TO_DEVICE, STORE, 0, 0, bytes(257)),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_it_does_not_know_stalls_once(device: usb.core.Device, case: str) -> None:
    with pytest.raises(usb.core.USBError) as failure:
        device.ctrl_transfer(*REFUSED[case], TIMEOUT)
    assert stalls(failure.value)
    assert bytes(device.ctrl_transfer(0x80, 8, 0, 0, 1, TIMEOUT)) == b"\1"


STATUS = {
    "of the device, which has power of its own": (0x80, 0, 0, 0, 2, b"\1\0"),
    "of an interface": (0x81, 0, 0, 1, 2, b"\0\0"),
    "of an endpoint": (0x82, 0, 0, 0x83, 2, b"\0\0"),
    "of endpoint 0": (0x82, 0, 0, 0, 2, b"\0\0"),
    "the setting of interface 0": (0x81, 10, 0, 0, 1, b"\0"),
    "the setting of interface 1": (0x81, 10, 0, 1, 1, b"\1"),
}


@pytest.mark.parametrize("case", STATUS)
def test_states(device: usb.core.Device, case: str) -> None:
    *request, expected = STATUS[case]
    assert bytes(device.ctrl_transfer(*request, TIMEOUT)) == expected


# Data at endpoint 0.


@pytest.mark.parametrize("size", [1, 63, 64, 65, 128, 192, 200, 256])
def test_data_of_control_transfers(device: usb.core.Device, size: int) -> None:
    data = pattern(size)
    assert device.ctrl_transfer(TO_DEVICE, STORE, 0, 0, data, TIMEOUT) == size
    for length in (1, 64, size, size + 1, 1024):
        assert bytes(device.ctrl_transfer(TO_HOST, LOAD, 0, 0, length, TIMEOUT)) == data[:length]
    device.ctrl_transfer(TO_HOST, LOAD, 0, 0, 0, TIMEOUT)


def test_no_data_where_the_host_asks_for_some(device: usb.core.Device) -> None:
    device.ctrl_transfer(TO_DEVICE, STORE, 0, 0, None, TIMEOUT)
    assert bytes(device.ctrl_transfer(TO_HOST, LOAD, 0, 0, 64, TIMEOUT)) == b""


def test_a_host_that_gives_a_transfer_up(device: usb.core.Device) -> None:
    for _ in range(2):
        with pytest.raises(usb.core.USBTimeoutError):
            device.ctrl_transfer(TO_HOST, HANG, 0, 0, 8, 50)
    assert bytes(device.ctrl_transfer(0x80, 8, 0, 0, 1, TIMEOUT)) == b"\1"


def test_a_status_that_is_not_empty_fails(device: usb.core.Device) -> None:
    with pytest.raises(usb.core.USBError) as failure:
        device.ctrl_transfer(TO_DEVICE, WRONG, 0, 0, None, TIMEOUT)
    assert failure.value.backend_error_code == libusb1.LIBUSB_ERROR_OVERFLOW


# Packets.


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("size", SIZES)
def test_a_packet_comes_back(device: usb.core.Device, number: int, size: int) -> None:
    assert device.write(number, pattern(size), TIMEOUT) == size
    assert bytes(device.read(0x80 | number, 512, TIMEOUT)) == pattern(size)


@pytest.mark.parametrize("number", [1, 2])
def test_packets_of_a_longer_transfer_come_one_by_one(device: usb.core.Device, number: int) -> None:
    data = pattern(513)
    for sent, back in ((data, [512, 1]), (pattern(1000), [512, 488])):
        got = []
        device.write(number, sent[:512], TIMEOUT)
        got.append(bytes(device.read(0x80 | number, 512, TIMEOUT)))
        device.write(number, sent[512:], TIMEOUT)
        got.append(bytes(device.read(0x80 | number, 512, TIMEOUT)))
        assert (b"".join(got), [len(each) for each in got]) == (sent, back)


@pytest.mark.parametrize("sizes", [(0,), (511,), (512,), (513,), (1024,), (1025,), (100, 0, 512, 7)])
def test_each_packet_is_counted(device: usb.core.Device, sizes: tuple[int, ...]) -> None:
    before = counts(device)
    for size in sizes:
        device.write(0x03, bytes(size), TIMEOUT)
    after = counts(device)
    # A write that fills its last packet ends without a shorter one, unless the host sends one.
    assert after.packets - before.packets == sum(max(1, -(-size // 512)) for size in sizes)
    assert after.bytes - before.bytes == sum(sizes)


@pytest.mark.parametrize("size", [0, 1, 511, 512, 513, 1024, 10_000, 65_535])
def test_many_packets_in_one_call(device: usb.core.Device, size: int) -> None:
    device.ctrl_transfer(TO_DEVICE, SEND, size, 0, None, TIMEOUT)
    whole = size + (size % 512 == 0 and size > 0)  # a full last packet does not end a transfer
    data = bytes(device.read(0x83, size if whole > size else size + 512, TIMEOUT))
    assert data == pattern(size)


def test_a_packet_that_has_no_room_fails_and_is_sent_again(device: usb.core.Device) -> None:
    device.write(0x01, pattern(100), TIMEOUT)
    with pytest.raises(usb.core.USBError) as failure:
        device.read(0x81, 99, TIMEOUT)
    assert failure.value.backend_error_code == libusb1.LIBUSB_ERROR_OVERFLOW
    assert bytes(device.read(0x81, 100, TIMEOUT)) == pattern(100)


@pytest.mark.parametrize("size", [0, 1, 15, 16])
def test_interrupt_packets_come_back(device: usb.core.Device, size: int) -> None:
    assert device.write(0x04, pattern(size), TIMEOUT) == size
    assert bytes(device.read(0x84, 16, TIMEOUT)) == pattern(size)


@pytest.mark.parametrize("size", [17, 32, 40])
@pytest.mark.usefixtures("kept_programs")
async def test_smaller_packets_divide_longer_requests(size: int) -> None:
    need_compiler()
    async with open_device(board_of(SOURCE), runner=inline) as device:
        host = InProcessHost(device.usb)
        await host.plug_in()
        with trio.fail_after(SECONDS):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(partial(host.write, pattern(size), endpoint=0x04))
                # A request of 64 bytes ends with the first packet that is not full.
                got = await host.read(64 if size % 16 else size, endpoint=0x84)
        assert got == pattern(size)


# Halts.


@pytest.mark.parametrize("endpoint", [0x01, 0x81, 0x02, 0x82, 0x03, 0x83])
def test_a_halt_by_the_program_lasts_until_the_host_clears_it(device: usb.core.Device, endpoint: int) -> None:
    device.ctrl_transfer(TO_DEVICE, STALL, 0, endpoint, None, TIMEOUT)
    assert bytes(device.ctrl_transfer(0x82, 0, 0, endpoint, 2, TIMEOUT)) == b"\1\0"
    for _ in range(2):
        use = device.read if endpoint & 0x80 else device.write
        with pytest.raises(usb.core.USBError) as failure:
            use(endpoint, 512 if endpoint & 0x80 else b"data", TIMEOUT)
        assert stalls(failure.value)
    device.clear_halt(endpoint)
    assert bytes(device.ctrl_transfer(0x82, 0, 0, endpoint, 2, TIMEOUT)) == b"\0\0"
    if endpoint & 0x7F < 3:
        device.write(endpoint & 0x7F, b"again", TIMEOUT)
        assert bytes(device.read(endpoint | 0x80, 512, TIMEOUT)) == b"again"


def test_a_halt_that_the_program_clears_itself(device: usb.core.Device) -> None:
    device.write(0x01, b"kept", TIMEOUT)
    device.ctrl_transfer(TO_DEVICE, STALL, 0, 0x81, None, TIMEOUT)
    with pytest.raises(usb.core.USBError):
        device.read(0x81, 512, TIMEOUT)
    device.ctrl_transfer(TO_DEVICE, CLEAR, 0, 0, None, TIMEOUT)
    assert bytes(device.read(0x81, 512, TIMEOUT)) == b"kept"


def test_a_packet_waits_behind_a_halt(device: usb.core.Device) -> None:
    device.write(0x01, b"first", TIMEOUT)
    device.ctrl_transfer(0x02, 3, 0, 0x81, None, TIMEOUT)  # SET_FEATURE(ENDPOINT_HALT)
    with pytest.raises(usb.core.USBError):
        device.read(0x81, 512, TIMEOUT)
    device.clear_halt(0x81)
    assert bytes(device.read(0x81, 512, TIMEOUT)) == b"first"


# Hosts that leave, and resets.


def test_a_host_that_leaves_with_a_packet_untaken(address: str) -> None:
    for number in (1, 2):
        for _ in range(2):
            left = usb.core.find(idVendor=0x1209, backend=get_backend(address))
            left.set_configuration()
            left.write(number, b"nobody reads this", TIMEOUT)
            before = counts(left)
            usb.util.dispose_resources(left)
            found = usb.core.find(idVendor=0x1209, backend=get_backend(address))
            found.set_configuration()
            found.write(number, b"new", TIMEOUT)
            assert bytes(found.read(0x80 | number, 512, TIMEOUT)) == b"new"
            assert counts(found).resets > before.resets
            usb.util.dispose_resources(found)


def test_an_endpoint_without_status_sends_what_it_had_to_the_next_host(address: str) -> None:
    left = usb.core.find(idVendor=0x1209, backend=get_backend(address))
    left.set_configuration()
    left.set_interface_altsetting(1, 1)
    left.ctrl_transfer(TO_DEVICE, SEND, 5, 0, None, TIMEOUT)
    usb.util.dispose_resources(left)
    found = usb.core.find(idVendor=0x1209, backend=get_backend(address))
    found.set_configuration()
    found.set_interface_altsetting(1, 1)
    assert bytes(found.read(0x83, 512, TIMEOUT)) == pattern(5)
    usb.util.dispose_resources(found)


@pytest.mark.usefixtures("kept_programs")
async def test_a_device_that_leaves_the_bus_comes_back() -> None:
    need_compiler()
    async with open_device(board_of(SOURCE), runner=inline) as device:
        host = InProcessHost(device.usb)
        for left in range(1, 4):
            with trio.fail_after(SECONDS):
                await host.plug_in()
                await host.write(b"first")
                write = SetupPacket(TO_DEVICE, LEAVE, 0, 0, 0)
                await host.control(write)
                await device.usb.wait_unplugged()
                assert await device.usb.wait_plugged()
                await host.plug_in()
                for number in (1, 2):
                    await host.write(pattern(77), endpoint=number)
                    assert await host.read(512, endpoint=0x80 | number) == pattern(77)
                await host.write(b"", endpoint=0x03)
                answer = await host.control(SetupPacket(TO_HOST, COUNTS, 0, 0, 64))
            assert Counts(*struct.unpack("<5I", answer)).kills == left


@pytest.mark.usefixtures("kept_programs")
async def test_a_reset_while_packets_are_on_their_way() -> None:
    need_compiler()
    async with open_device(board_of(SOURCE), runner=inline) as device:
        host = InProcessHost(device.usb)
        for number in (1, 2):
            await host.plug_in()
            async with trio.open_nursery() as nursery:
                ended: list[TransferStatus] = []

                async def write(number: int = number, ended: list[TransferStatus] = ended) -> None:
                    try:
                        await host.write(pattern(5000), endpoint=number)
                    except TransferFailed as failure:
                        ended.append(failure.status)

                nursery.start_soon(write)
                assert await host.read(512, endpoint=0x80 | number) == pattern(5000)[:512]
                await wait_all_tasks_blocked()
                with trio.fail_after(SECONDS):
                    await host.plug_in()
            assert ended == [TransferStatus.SHUTDOWN]
            with trio.fail_after(SECONDS):
                await host.write(b"fresh", endpoint=number)
                assert await host.read(512, endpoint=0x80 | number) == b"fresh"


@pytest.mark.usefixtures("kept_programs")
async def test_endpoints_are_there_only_in_a_configuration() -> None:
    need_compiler()
    async with open_device(board_of(SOURCE), runner=inline) as device:
        host = InProcessHost(device.usb)
        device.usb.reset()
        with pytest.raises(TransferFailed):
            await host.write(b"x")
        await host.plug_in()
        await host.write(b"x")
        await host.control(SetupPacket(Recipient.DEVICE, StandardRequest.SET_CONFIGURATION, 0, 0, 0))
        with pytest.raises(TransferFailed):
            await host.read(512)
        with pytest.raises(TransferFailed):
            await host.is_halted(0x81)


@pytest.mark.usefixtures("kept_programs")
async def test_interfaces_that_are_not_there() -> None:
    need_compiler()
    async with open_device(board_of(SOURCE), runner=inline) as device:
        host = InProcessHost(device.usb)
        await host.plug_in()
        for request_type, request in ((0x81, 10), (0x81, 0), (0x01, 11)):
            with pytest.raises(TransferFailed) as refused:
                await host.control(SetupPacket(request_type, request, 0, 2, request_type >> 7))
            assert refused.value.status is TransferStatus.STALL


# Device time.


async def times_of_echoes() -> list[int]:
    """Write and read packets on all endpoints that return them; return the tick after each."""
    ticks = []
    async with open_device(board_of(SOURCE), runner=inline, device_time=True) as device:
        host = InProcessHost(device.usb)
        await host.plug_in()
        for number in (1, 2, 4):
            for size in (0, 1, 16) if number == 4 else (0, 1, 511, 512):
                await host.write(pattern(size), endpoint=number)
                assert await host.read(16 if number == 4 else 512, endpoint=0x80 | number) == pattern(size)
                ticks.append(device.node.clock.ticks())
        await host.control(SetupPacket(TO_DEVICE, STALL, 0, 0x81, 0))
        assert await host.is_halted(0x81)
        await host.clear_halt(0x81)
        await host.control(SetupPacket(TO_DEVICE, LEAVE, 0, 0, 0))
        await device.usb.wait_unplugged()
        assert await device.usb.wait_plugged()
        await host.plug_in()
        await host.write(b"back", endpoint=2)
        assert await host.read(512, endpoint=0x82) == b"back"
        ticks.append(device.node.clock.ticks())
    return ticks


@pytest.mark.usefixtures("kept_programs")
def test_in_device_time_packets_take_theirs_and_each_run_is_the_same() -> None:
    need_compiler()
    ticks = on_virtual_time(times_of_echoes)
    assert ticks == sorted(set(ticks))
    took = [after - before for before, after in pairwise(ticks)]
    # 511 bytes more, there and back, are 17 us at 480 Mbit/s, and a little more with bit stuffing.
    assert 1700 <= took[1] - took[0] < 2100
    assert on_virtual_time(times_of_echoes) == ticks


# The example, as its page shows it.


@pytest.mark.usefixtures("kept_programs")
def test_the_example_by_exec(tmp_path: Path) -> None:
    need_compiler()
    page = Page.read(ROOT / "docs/guides/firmware.md")
    program = next(block for block in page.blocks() if block.title == "loopback_host.py")
    host = tmp_path / "loopback_host.py"
    host.write_text(program.text)
    board = ROOT / "examples/firmware/loopback.toml"
    done = run_process([*AISRV, "exec", "--board", str(board), "--", sys.executable, str(host)])
    assert (done.returncode, done.stdout) == (0, "Loopback b'hello'\n"), done.stderr


# What goes wrong in a program.

FRAME = """
#include <stdlib.h>
#include <xcore/channel.h>
#include <xcore/parallel.h>
#include <xud_device.h>
DECLARE_JOB(core, (chanend_t *, chanend_t *));
DECLARE_JOB(serve, (chanend_t, chanend_t));
static XUD_EpType types[] = {XUD_EPTYPE_CTL | XUD_STATUS_ENABLE, KIND};
static chanend_t other;
static void be_xud(chanend_t *out, int n, chanend_t *in, chanend_t sof) {
    XUD_Main(out, n, in, n, sof, types, types, XUD_SPEED_HS, XUD_PWR_BUS);
}
void core(chanend_t *out, chanend_t *in) { be_xud(out, 2, in, SOF); }
void serve(chanend_t c, chanend_t d) {
    unsigned char packet[2000] = {0};
    unsigned n = packet[0];
    (void)n;
    FAULT;
}
void usb_device(void) {
    channel_t c = chan_alloc(), d = chan_alloc(), e = chan_alloc(), f = chan_alloc();
    chanend_t out[] = {e.end_b, c.end_b}, in[] = {f.end_b, d.end_b};
    other = chan_alloc().end_a;
    PAR_JOBS(PJOB(serve, (c.end_a, d.end_a)), PJOB(core, (out, in)));
}
"""
FAULTS = {
    "XUD_InitEp(other)": "xud_init_ep: chanend 0x80010802 does not lead to an end of XUD_Main's",
    "XUD_GetBuffer(c, packet, &n)": "xud_get_buffer on chanend 0x80010002",
    "XUD_GetBuffer(XUD_InitEp(d), packet, &n)": "xud_get_buffer: endpoint 0x81 is for IN",
    "XUD_SetBuffer(XUD_InitEp(c), packet, 1)": "xud_set_buffer: endpoint 0x01 is for OUT",
    "XUD_SetBuffer(XUD_InitEp(d), packet, 513)": "xud_set_buffer: 513 bytes, and a packet of endpoint 0x81 "
    "has 512 at most; XUD_SetBuffer_EpMax sends several",
    "XUD_GetSetupBuffer(XUD_InitEp(c), packet, &n)": "xud_get_setup: endpoint 0x01 has no SETUP packets",
    "XUD_InitEp(c); XUD_SetStallByAddr(0x85)": "xud_stall: there is no endpoint 0x85",
    "XUD_SetReady_Out(XUD_InitEp(c), packet); XUD_GetBuffer(c, packet, &n)": "RESOURCE_DEP (9): a transfer "
    "on endpoint 0x01 while another one is in progress",
    "XUD_ResetEndpoint(XUD_InitEp(c), 0); XUD_GetBusState(c, 0)": "xud_bus_state: the bus has not changed",
    "XUD_InitEp(c); be_xud(&c, 1, &d, 0)": "xud_main: there is an XUD core already",
    "be_xud(&c, 17, &d, 0)": "XUD_Main has 1 to 16 endpoints of each direction",
}


@pytest.mark.usefixtures("kept_programs")
@pytest.mark.parametrize("fault", FAULTS)
async def test_a_wrong_call_traps_by_name(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    monkeypatch.setenv(CASE, str(list(FAULTS).index(fault)))
    folder = tmp_path_factory.getbasetemp() / "wrong-calls"
    folder.mkdir(exist_ok=True)
    reason = await trapped(folder, KIND="XUD_EPTYPE_BUL", SOF="0", FAULT=one_of(FAULTS))
    assert FAULTS[fault] in reason
    assert "serve at usb.c:" in reason


@pytest.mark.usefixtures("kept_programs")
@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ({"KIND": "XUD_EPTYPE_ISO"}, "endpoint 0x01 is isochronous, and there are none of these here"),
        ({"SOF": "out[0]"}, "there are no start-of-frame tokens here: give XUD_Main 0 for c_sof"),
    ],
)
async def test_what_the_bus_has_not(tmp_path: Path, words: dict[str, str], expected: str) -> None:
    reason = await trapped(tmp_path, **{"KIND": "XUD_EPTYPE_BUL", "SOF": "0", "FAULT": ""} | words)
    assert expected in reason
    assert "core at usb.c:" in reason


async def trapped(folder: Path, **words: str) -> str:
    """Run a device of which a core traps; return the reason."""
    need_compiler("addr2line")
    source = folder / "usb.c"
    text = FRAME
    for word, instead in words.items():
        text = text.replace(word, instead)
    source.write_text(text)
    with trio.fail_after(SECONDS), pytest.raises(ExceptionGroup) as failed:
        async with open_device(board_of(source), runner=inline):
            await trio.sleep_forever()
    trap = sole_error(failed.value, Trap)
    return f"{trap}"


@pytest.mark.usefixtures("kept_programs")
def test_a_program_that_answers_nothing_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    need_compiler()
    source = tmp_path / "usb.c"
    source.write_text("void usb_device(void) {}")

    async def run() -> None:
        async with open_device(board_of(source), runner=inline) as device:
            assert device.usb.is_unplugged

    trio.run(run, clock=MockClock(autojump_threshold=0))
    assert (
        "the task 'usb' has not called XUD_Main within 5 s; hosts see the USB device once it has"
        in caplog.text
    )


@pytest.mark.usefixtures("kept_programs")
def test_a_program_without_a_bus(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    need_compiler("addr2line")
    text = "#include <xud.h>\nint main(void) { XUD_InitEp(chanend_alloc()); return 0; }"
    assert run_c(tmp_path, text) == TRAPPED
    assert "this program has no USB bus: a board gives one to the task that its [usb] names" in caplog.text


@pytest.mark.usefixtures("kept_programs")
def test_setup_packets_without_a_bus(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    need_compiler()
    text = """
    #include <xud_device.h>
    int main(void) {
        unsigned char bytes[8] = {0xC2, 0x12, 0x34, 0x12, 0x78, 0x56, 0xBC, 0x9A}, again[8] = {0};
        USB_SetupPacket_t s;
        USB_ParseSetupPacket(bytes, &s);
        USB_PrintSetupPacket(s);
        USB_ComposeSetupBuffer(s, again);
        printf("%d %d %d %d\\n", s.bmRequestType.Direction, s.bmRequestType.Type, s.bmRequestType.Recipient,
               memcmp(bytes, again, 8));
        return 0;
    }
    """
    assert run_c(tmp_path, text) == 0
    printed = "bmRequestType c2\nbRequest 12\nwValue 1234\nwIndex 5678\nwLength 9abc\n"
    assert capfd.readouterr().out == f"{printed}1 2 2 0\n"


@pytest.mark.usefixtures("kept_programs")
def test_what_is_not_served_does_not_compile(tmp_path: Path) -> None:
    source = tmp_path / "program.c"
    source.write_text("#include <xud.h>\nint main(void) { XUD_SetTestMode(0, 0); return 0; }")
    with pytest.raises(
        CompileError, match="XUD_SetTestMode is not there on the host: the bus has no electrical"
    ):
        build(Program((Unit((source,)),)), need_compiler())


@pytest.mark.usefixtures("kept_programs")
@pytest.mark.parametrize("compiler", COMPILERS)
def test_the_headers_are_for_c_and_cpp(tmp_path: Path, compiler: str) -> None:
    text = "#include <xud_device.h>\nint main(void) { return sizeof(USB_Descriptor_Endpoint_t) - 7; }\n"
    need_compiler("g++")
    for name in ("program.c", "program.cpp"):
        (tmp_path / name).write_text(text)
        options = ("-Wall", "-Wextra", "-Werror", "-pedantic")
        build(Program((Unit((tmp_path / name,), options=options),)), need_compiler(compiler))
