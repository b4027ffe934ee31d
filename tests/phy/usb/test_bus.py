"""The bus: who gets a request, the order of control transfers, reset, and the host inside the process."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.protocol.usb_descriptors import SetupPacket, aisrv_descriptors
from aisrv.xcore.channels.array import LARGE_BYTES
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.urb import InUrb, OutUrb, TransferStatus
from phy.usb.xud import UsbReset

SETUP = SetupPacket(0x80, 6, 0x0100, 0, 4)
NO_ENDPOINTS = [0x00, 0x02, 0x0F, 0x80, 0x82, 0x101]


@pytest.fixture
def bus() -> UsbBus:
    return UsbBus(aisrv_descriptors())


class Control:
    """A control request, submitted, and how it ended."""

    def __init__(self, bus: UsbBus, setup: SetupPacket = SETUP) -> None:
        self.ended: list[tuple[TransferStatus, bytes]] = []
        self.request = ControlUrb(setup, b"", lambda *end: self.ended.append(end))
        bus.submit_control(self.request)


def out_request() -> OutUrb:
    return OutUrb(0, lambda *end: None)


def in_request() -> InUrb:
    return InUrb(0, lambda *end: None)


def test_device_starts_without_address_and_configuration(bus: UsbBus) -> None:
    assert (bus.address, bus.configuration) == (0, 0)


def test_bulk_endpoints_are_there_only_in_a_configuration(bus: UsbBus) -> None:
    assert (bus.submit_out(0x01, out_request()), bus.submit_in(0x81, in_request())) == (False, False)
    bus.configure(1)
    assert (bus.submit_out(0x01, out_request()), bus.submit_in(0x81, in_request())) == (True, True)
    bus.configure(0)
    assert (bus.submit_out(0x01, out_request()), bus.submit_in(0x81, in_request())) == (False, False)


@pytest.mark.parametrize("address", NO_ENDPOINTS)
def test_request_for_an_endpoint_that_is_not_there(bus: UsbBus, address: int) -> None:
    bus.configure(1)
    assert not bus.submit_out(address, out_request())
    assert not bus.submit_in(address, in_request())


def test_direction_belongs_to_the_endpoint(bus: UsbBus) -> None:
    bus.configure(1)
    assert not bus.submit_out(0x81, out_request())
    assert not bus.submit_in(0x01, in_request())


async def test_waiting_endpoint_0_gets_the_request_and_the_next_is_queued(bus: UsbBus) -> None:
    got: list[ControlUrb] = []

    async def firmware() -> None:
        got.append(await bus.get_setup())
        got.append(await bus.get_setup())

    async with trio.open_nursery() as nursery:
        nursery.start_soon(firmware)
        await wait_all_tasks_blocked()
        requests = [Control(bus).request, Control(bus).request]
    assert got == requests


async def test_cancelled_get_setup_leaves_the_request_to_the_next(bus: UsbBus) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.get_setup)
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    control = Control(bus)
    assert await bus.get_setup() is control.request


@pytest.mark.parametrize(
    ("answer", "cut"), [(b"", b""), (b"abc", b"abc"), (b"abcd", b"abcd"), (b"abcde", b"abcd")]
)
def test_answer_is_cut_to_the_length_the_host_asked_for(answer: bytes, cut: bytes) -> None:
    ended: list[tuple[TransferStatus, bytes]] = []
    ControlUrb(SETUP, b"", lambda *end: ended.append(end)).answer(answer)
    assert ended == [(TransferStatus.OKAY, cut)]


async def test_unlinked_control_request_is_not_answered(bus: UsbBus) -> None:
    first, second = Control(bus), Control(bus)
    assert bus.unlink(first.request)
    assert await bus.get_setup() is second.request
    assert not bus.unlink(first.request)
    assert not bus.unlink(second.request)  # it is being answered
    assert first.ended == []


def test_unlink_finds_the_endpoint_of_a_request(bus: UsbBus) -> None:
    bus.configure(1)
    sent, read = OutUrb(3, lambda *end: None), InUrb(3, lambda *end: None)
    bus.submit_out(0x01, sent)
    bus.submit_in(0x81, read)
    assert (bus.unlink(sent), bus.unlink(read)) == (True, True)
    assert (bus.unlink(sent), bus.unlink(read)) == (False, False)


async def test_reset_drops_everything(bus: UsbBus) -> None:
    bus.address = 5
    bus.configure(1)
    bus.out_endpoint.acknowledge_reset()
    bus.in_endpoint.acknowledge_reset()
    bus.in_endpoint.halt()
    control = Control(bus)
    ends: list[tuple[TransferStatus, int]] = []
    bus.submit_out(0x01, OutUrb(3, lambda *end: ends.append(end)))
    bus.reset()
    assert (bus.address, bus.configuration, bus.in_endpoint.halted) == (0, 0, False)
    assert control.ended == [(TransferStatus.SHUTDOWN, b"")]
    assert ends == [(TransferStatus.SHUTDOWN, 0)]
    for endpoint in bus.endpoints.values():
        with pytest.raises(UsbReset):
            endpoint.check_reset()


# The host inside the process.


@pytest.fixture
def host(bus: UsbBus) -> InProcessHost:
    bus.configure(1)
    bus.out_endpoint.acknowledge_reset()
    bus.in_endpoint.acknowledge_reset()
    return InProcessHost(bus)


async def test_write_returns_the_bytes_taken(bus: UsbBus, host: InProcessHost) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.out_endpoint.get_buffer)
        assert await host.write(b"abc") == 3


async def test_read_returns_the_data(bus: UsbBus, host: InProcessHost) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.in_endpoint.set_buffer, b"abc")
        assert await host.read(512) == b"abc"


async def test_a_cable_that_is_pulled_ends_transfers_until_it_is_in_again(
    bus: UsbBus, host: InProcessHost
) -> None:
    ended: list[TransferFailed] = []

    async def read() -> None:
        try:
            await host.read(512)
        except TransferFailed as failure:
            ended.append(failure)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(read)
        nursery.start_soon(bus.wait_unplugged)
        await wait_all_tasks_blocked()
        bus.unplug()
    assert [each.status for each in ended] == [TransferStatus.SHUTDOWN]
    assert bus.is_unplugged
    with pytest.raises(TransferFailed, match="switched off"):
        await host.write(b"abc")
    bus.plug()
    assert not bus.is_unplugged
    assert bus.configuration == 0  # it is new on its bus


async def test_a_cable_that_is_out_is_waited_for(bus: UsbBus) -> None:
    found: list[bool] = []

    async def wait() -> None:
        found.append(await bus.wait_plugged())

    assert await bus.wait_plugged()
    bus.unplug()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await wait_all_tasks_blocked()
        assert found == []
        bus.plug()
    assert found == [True]


@pytest.mark.parametrize("pulled", [False, True])
async def test_the_cable_of_a_failed_device_is_waited_for_no_longer(bus: UsbBus, pulled: bool) -> None:
    if pulled:
        bus.unplug()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.wait_plugged)
        await wait_all_tasks_blocked()
        bus.fail()
    assert not await bus.wait_plugged()


async def test_no_cable_brings_a_failed_device_back(bus: UsbBus) -> None:
    bus.fail()
    bus.plug()
    assert bus.is_unplugged
    await bus.wait_failed()


async def test_failed_transfer_says_how_and_how_far(bus: UsbBus, host: InProcessHost) -> None:
    bus.out_endpoint.halt()
    bus.in_endpoint.halt()
    with pytest.raises(TransferFailed, match=r"^the transfer ended with a stall after 0$") as write:
        await host.write(b"abc")
    with pytest.raises(TransferFailed, match=r"^the transfer ended with a stall after b''$") as read:
        await host.read(512)
    assert (write.value.status, write.value.transferred) == (TransferStatus.STALL, 0)
    assert (read.value.status, read.value.transferred) == (TransferStatus.STALL, b"")


@pytest.mark.parametrize("endpoint", [0x02, 0x81])
async def test_write_to_no_endpoint(host: InProcessHost, endpoint: int) -> None:
    with pytest.raises(TransferFailed) as failure:
        await host.write(b"abc", endpoint=endpoint)
    assert (failure.value.status, failure.value.transferred) == (TransferStatus.SHUTDOWN, 0)


async def test_read_of_a_device_without_configuration(bus: UsbBus, host: InProcessHost) -> None:
    bus.configure(0)
    with pytest.raises(TransferFailed) as failure:
        await host.read(512)
    assert (failure.value.status, failure.value.transferred) == (TransferStatus.SHUTDOWN, b"")


async def test_cancelled_transfers_are_unlinked(bus: UsbBus, host: InProcessHost) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(host.write, b"abc")
        nursery.start_soon(host.read, 512)
        nursery.start_soon(host.control, SETUP)
        await wait_all_tasks_blocked()
        assert (bus.out_endpoint.pending, bus.in_endpoint.pending) == (1, 1)
        nursery.cancel_scope.cancel()
    assert (bus.out_endpoint.pending, bus.in_endpoint.pending) == (0, 0)
    control = Control(bus)
    assert await bus.get_setup() is control.request


async def test_transfer_in_a_scope_that_is_cancelled_already_does_nothing(
    bus: UsbBus, host: InProcessHost
) -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.in_endpoint.set_buffer, b"kept")
        await wait_all_tasks_blocked()
        with trio.CancelScope() as scope:
            scope.cancel()
            await host.read(512)
        assert scope.cancelled_caught
        assert await host.read(512) == b"kept"


class CancellingBus(UsbBus):
    """A bus on which a cancellation comes in the moment in which a request is submitted."""

    scope = trio.CancelScope()

    def submit_in(self, address: int, request: InUrb) -> bool:
        self.scope.cancel()
        return super().submit_in(address, request)


async def test_data_that_came_are_not_lost_to_a_cancellation() -> None:
    bus = CancellingBus(aisrv_descriptors())
    bus.configuration = 1
    got = b""
    async with trio.open_nursery() as nursery:
        nursery.start_soon(bus.in_endpoint.set_buffer, b"data")
        await wait_all_tasks_blocked()
        with trio.CancelScope() as bus.scope:
            got = await InProcessHost(bus).read(512)
    assert got == b"data"


@pytest.mark.parametrize(
    "pieces", [(LARGE_BYTES,), (LARGE_BYTES, 1), (LARGE_BYTES + 1,), (3, LARGE_BYTES, 512)]
)
def test_large_data_of_an_in_request_are_whole(pieces: tuple[int, ...]) -> None:
    ends: list[tuple[TransferStatus, bytes | memoryview]] = []
    request = InUrb(sum(pieces) + 100, lambda status, data: ends.append((status, data)))
    for number, size in enumerate(pieces):
        request.put(bytes((number + 1,)) * size)
    expected = b"".join(bytes((number + 1,)) * size for number, size in enumerate(pieces))
    assert request.filled == len(expected)
    request.finish(TransferStatus.OKAY)
    ((status, data),) = ends
    assert (status, len(data), bytes(data) == expected) == (TransferStatus.OKAY, len(expected), True)
