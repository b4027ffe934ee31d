"""Endpoint 0: every standard request, good and bad, by the rules of USB 2.0, section 9.4."""

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.protocol.usb_descriptors import SetupPacket, StandardRequest, aisrv_descriptors
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.ep0 import answer, usb_ep0
from phy.usb.urb import TransferStatus
from phy.usb.xud import UsbReset
from tests.protocol.test_usb_descriptors import (
    CONFIGURATION,
    DEVICE,
    LANGUAGES,
    OTHER_SPEED,
    PRODUCT,
    QUALIFIER,
)
from tests.support.peers.usb_host import In, Out

TO_DEVICE, TO_INTERFACE, TO_ENDPOINT = 0x00, 0x01, 0x02
FROM_DEVICE, FROM_INTERFACE, FROM_ENDPOINT = 0x80, 0x81, 0x82
OUT, IN = 0x01, 0x81

STALLED = (TransferStatus.STALL, b"")


def okay(data: bytes = b"") -> tuple[TransferStatus, bytes]:
    return (TransferStatus.OKAY, data)


def control(
    bus: UsbBus, request_type: int, request: int, value: int = 0, index: int = 0, length: int = 0
) -> tuple[TransferStatus, bytes]:
    ended: list[tuple[TransferStatus, bytes]] = []
    setup = SetupPacket(request_type, request, value, index, length)
    answer(bus, ControlUrb(setup, b"", lambda *end: ended.append(end)))
    assert len(ended) == 1
    return ended[0]


@pytest.fixture
def bus() -> UsbBus:
    """A device in the address state: no configuration yet."""
    return UsbBus(aisrv_descriptors())


@pytest.fixture
def configured(bus: UsbBus) -> UsbBus:
    assert control(bus, TO_DEVICE, StandardRequest.SET_CONFIGURATION, 1) == okay()
    bus.out_endpoint.acknowledge_reset()
    bus.in_endpoint.acknowledge_reset()
    return bus


# GET_DESCRIPTOR.


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0x0100, DEVICE),
        (0x0200, CONFIGURATION),
        (0x0300, LANGUAGES),
        (0x0302, PRODUCT),
        (0x0600, QUALIFIER),
        (0x0700, OTHER_SPEED),
    ],
)
def test_get_descriptor(bus: UsbBus, value: int, expected: bytes) -> None:
    assert control(bus, FROM_DEVICE, StandardRequest.GET_DESCRIPTOR, value, 0, 255) == okay(expected)


@pytest.mark.parametrize("length", [0, 1, 8, 9, 17, 18, 64, 0xFFFF])
def test_descriptor_is_cut_to_the_length_asked_for(bus: UsbBus, length: int) -> None:
    assert control(bus, FROM_DEVICE, StandardRequest.GET_DESCRIPTOR, 0x0100, 0, length) == okay(
        DEVICE[:length]
    )


@pytest.mark.parametrize("value", [0x0000, 0x0101, 0x0201, 0x0304, 0x03FF, 0x0400, 0x0500, 0x0F00, 0x2200])
def test_descriptor_that_is_not_there(bus: UsbBus, value: int) -> None:
    assert control(bus, FROM_DEVICE, StandardRequest.GET_DESCRIPTOR, value, 0, 255) == STALLED


# Configuration and address.


def test_configuration_is_set_and_read(bus: UsbBus) -> None:
    assert control(bus, FROM_DEVICE, StandardRequest.GET_CONFIGURATION, length=1) == okay(b"\0")
    assert control(bus, TO_DEVICE, StandardRequest.SET_CONFIGURATION, 1) == okay()
    assert control(bus, FROM_DEVICE, StandardRequest.GET_CONFIGURATION, length=1) == okay(b"\1")
    assert control(bus, TO_DEVICE, StandardRequest.SET_CONFIGURATION, 0) == okay()
    assert control(bus, FROM_DEVICE, StandardRequest.GET_CONFIGURATION, length=1) == okay(b"\0")


@pytest.mark.parametrize("value", [2, 0xFF, 0x0101, 0xFFFF])
def test_unknown_configuration_is_refused_and_the_present_one_stays(configured: UsbBus, value: int) -> None:
    pending = Out(configured.out_endpoint, length=3)
    assert control(configured, TO_DEVICE, StandardRequest.SET_CONFIGURATION, value) == STALLED
    assert (configured.configuration, pending.ended) == (1, [])


def test_set_configuration_clears_halts_and_abandons_transfers(configured: UsbBus) -> None:
    sent, read = Out(configured.out_endpoint, length=3), In(configured.in_endpoint, 512)
    configured.out_endpoint.halt()
    assert sent.ended == [(TransferStatus.STALL, 0)]
    assert control(configured, TO_DEVICE, StandardRequest.SET_CONFIGURATION, 1) == okay()
    assert read.ended == [(TransferStatus.SHUTDOWN, b"")]
    assert (configured.out_endpoint.halted, configured.in_endpoint.halted) == (False, False)
    for endpoint in configured.endpoints.values():
        with pytest.raises(UsbReset):
            endpoint.check_reset()


@pytest.mark.parametrize("address", [0, 1, 127])
def test_address_is_taken(bus: UsbBus, address: int) -> None:
    assert control(bus, TO_DEVICE, StandardRequest.SET_ADDRESS, address) == okay()
    assert bus.address == address


@pytest.mark.parametrize("address", [128, 0xFFFF])
def test_address_past_127_is_refused(bus: UsbBus, address: int) -> None:
    assert control(bus, TO_DEVICE, StandardRequest.SET_ADDRESS, address) == STALLED
    assert bus.address == 0


# GET_STATUS.


def test_device_is_bus_powered_and_cannot_wake_the_host(bus: UsbBus) -> None:
    assert control(bus, FROM_DEVICE, StandardRequest.GET_STATUS, length=2) == okay(b"\0\0")


def test_interface_status(configured: UsbBus) -> None:
    assert control(configured, FROM_INTERFACE, StandardRequest.GET_STATUS, length=2) == okay(b"\0\0")


@pytest.mark.parametrize("index", [1, 0xFF, 0x100])
def test_status_of_an_interface_that_is_not_there(configured: UsbBus, index: int) -> None:
    assert control(configured, FROM_INTERFACE, StandardRequest.GET_STATUS, index=index, length=2) == STALLED


@pytest.mark.parametrize("endpoint", [OUT, IN])
def test_endpoint_status_tells_of_the_halt(configured: UsbBus, endpoint: int) -> None:
    assert control(configured, FROM_ENDPOINT, StandardRequest.GET_STATUS, index=endpoint, length=2) == okay(
        b"\0\0"
    )
    configured.endpoints[endpoint].halt()
    assert control(configured, FROM_ENDPOINT, StandardRequest.GET_STATUS, index=endpoint, length=2) == okay(
        b"\1\0"
    )


@pytest.mark.parametrize("endpoint", [0x02, 0x0F, 0x82, 0x8F])
@pytest.mark.parametrize("request_type", [FROM_ENDPOINT, TO_ENDPOINT])
def test_endpoint_that_is_not_there(configured: UsbBus, endpoint: int, request_type: int) -> None:
    requests = {
        FROM_ENDPOINT: [StandardRequest.GET_STATUS],
        TO_ENDPOINT: [StandardRequest.CLEAR_FEATURE, StandardRequest.SET_FEATURE],
    }
    for request in requests[request_type]:
        assert control(configured, request_type, request, index=endpoint, length=2) == STALLED


# Without a configuration there are endpoint 0 and the device, nothing else (sections 9.4.1 to 9.4.11).


@pytest.mark.parametrize("endpoint", [0x00, 0x80])
def test_endpoint_0_is_always_there_and_never_halted(bus: UsbBus, endpoint: int) -> None:
    assert control(bus, TO_ENDPOINT, StandardRequest.SET_FEATURE, 0, endpoint) == okay()
    assert control(bus, FROM_ENDPOINT, StandardRequest.GET_STATUS, 0, endpoint, 2) == okay(b"\0\0")
    assert control(bus, TO_ENDPOINT, StandardRequest.CLEAR_FEATURE, 0, endpoint) == okay()


@pytest.mark.parametrize(
    ("request_type", "request_code", "index"),
    [
        (FROM_INTERFACE, StandardRequest.GET_STATUS, 0),
        (FROM_INTERFACE, StandardRequest.GET_INTERFACE, 0),
        (TO_INTERFACE, StandardRequest.SET_INTERFACE, 0),
        (FROM_ENDPOINT, StandardRequest.GET_STATUS, OUT),
        (FROM_ENDPOINT, StandardRequest.GET_STATUS, IN),
        (TO_ENDPOINT, StandardRequest.SET_FEATURE, OUT),
        (TO_ENDPOINT, StandardRequest.CLEAR_FEATURE, IN),
    ],
)
def test_needs_a_configuration(bus: UsbBus, request_type: int, request_code: int, index: int) -> None:
    assert control(bus, request_type, request_code, index=index, length=2) == STALLED


# The halt feature.


@pytest.mark.parametrize("endpoint", [OUT, IN])
def test_host_halts_and_clears_one_endpoint(configured: UsbBus, endpoint: int) -> None:
    assert control(configured, TO_ENDPOINT, StandardRequest.SET_FEATURE, 0, endpoint) == okay()
    halted = {address: each.halted for address, each in configured.endpoints.items()}
    assert halted == {OUT: endpoint == OUT, IN: endpoint == IN}
    assert control(configured, TO_ENDPOINT, StandardRequest.CLEAR_FEATURE, 0, endpoint) == okay()
    assert not configured.endpoints[endpoint].halted


def test_clearing_an_endpoint_that_is_not_halted_drops_nothing(configured: UsbBus) -> None:
    pending = Out(configured.out_endpoint, b"abc")
    assert control(configured, TO_ENDPOINT, StandardRequest.CLEAR_FEATURE, 0, OUT) == okay()
    assert (pending.ended, configured.out_endpoint.pending) == ([], 1)


@pytest.mark.parametrize("request_code", [StandardRequest.SET_FEATURE, StandardRequest.CLEAR_FEATURE])
@pytest.mark.parametrize(
    ("request_type", "feature"),
    [
        (TO_ENDPOINT, 1),
        (TO_ENDPOINT, 0x100),
        (TO_DEVICE, 0),
        (TO_DEVICE, 1),
        (TO_DEVICE, 2),
        (TO_INTERFACE, 0),
    ],
)
def test_features_the_device_does_not_have(
    configured: UsbBus, request_code: int, request_type: int, feature: int
) -> None:
    """Halt belongs to endpoints; remote wake-up (1) and test modes (2) belong to devices that have them."""
    configured.out_endpoint.halt()
    index = OUT if request_type == TO_ENDPOINT else 0
    assert control(configured, request_type, request_code, feature, index) == STALLED
    assert (configured.out_endpoint.halted, configured.in_endpoint.halted) == (True, False)


@pytest.mark.parametrize("selector", range(1, 6))
def test_test_modes_are_refused(configured: UsbBus, selector: int) -> None:
    """Test_J, Test_K, Test_SE0_NAK, Test_Packet and Test_Force_Enable, in the upper byte of wIndex."""
    assert control(configured, TO_DEVICE, StandardRequest.SET_FEATURE, 2, selector << 8) == STALLED
    assert configured.configuration == 1


# Interfaces.


def test_the_only_alternate_setting_is_0(configured: UsbBus) -> None:
    assert control(configured, FROM_INTERFACE, StandardRequest.GET_INTERFACE, length=1) == okay(b"\0")


@pytest.mark.parametrize("request_code", [StandardRequest.GET_INTERFACE, StandardRequest.SET_INTERFACE])
@pytest.mark.parametrize("index", [1, 0xFF, 0x100])
def test_interface_that_is_not_there(configured: UsbBus, request_code: int, index: int) -> None:
    request_type = FROM_INTERFACE if request_code == StandardRequest.GET_INTERFACE else TO_INTERFACE
    assert control(configured, request_type, request_code, 0, index, 1) == STALLED


def test_set_interface_clears_halts_and_abandons_transfers(configured: UsbBus) -> None:
    pending = Out(configured.out_endpoint, length=3)
    configured.in_endpoint.halt()
    assert control(configured, TO_INTERFACE, StandardRequest.SET_INTERFACE) == okay()
    assert (pending.ended, configured.in_endpoint.halted) == ([(TransferStatus.SHUTDOWN, 0)], False)


@pytest.mark.parametrize("alternate", [1, 0xFF, 0x100])
def test_alternate_setting_that_is_not_there(configured: UsbBus, alternate: int) -> None:
    pending = Out(configured.out_endpoint, length=3)
    assert control(configured, TO_INTERFACE, StandardRequest.SET_INTERFACE, alternate) == STALLED
    assert pending.ended == []


# Everything else.


@pytest.mark.parametrize(
    "request_code", [StandardRequest.SET_DESCRIPTOR, StandardRequest.SYNCH_FRAME, 2, 4, 13, 0xFF]
)
@pytest.mark.parametrize("request_type", [TO_DEVICE, FROM_DEVICE, TO_ENDPOINT, FROM_ENDPOINT])
def test_standard_request_the_device_does_not_have(
    configured: UsbBus, request_type: int, request_code: int
) -> None:
    assert control(configured, request_type, request_code, 0, 0, 2) == STALLED


@pytest.mark.parametrize("kind", [0x20, 0x40, 0x60], ids=["class", "vendor", "reserved"])
@pytest.mark.parametrize("recipient", [0, 1, 2, 3])
@pytest.mark.parametrize("direction", [0x00, 0x80])
def test_class_and_vendor_requests_are_refused(
    configured: UsbBus, kind: int, recipient: int, direction: int
) -> None:
    for request in StandardRequest:
        assert control(configured, direction | kind | recipient, request, 0, 0, 8) == STALLED


@pytest.mark.parametrize(
    ("request_type", "request_code"),
    [
        (TO_DEVICE, StandardRequest.GET_DESCRIPTOR),
        (FROM_DEVICE, StandardRequest.SET_CONFIGURATION),
        (FROM_DEVICE, StandardRequest.SET_ADDRESS),
        (TO_DEVICE, StandardRequest.GET_CONFIGURATION),
        (FROM_ENDPOINT, StandardRequest.CLEAR_FEATURE),
        (FROM_INTERFACE, StandardRequest.SET_INTERFACE),
        (FROM_INTERFACE, StandardRequest.GET_DESCRIPTOR),
        (FROM_ENDPOINT, StandardRequest.GET_CONFIGURATION),
        (0x83, StandardRequest.GET_STATUS),
        (0x84, StandardRequest.GET_STATUS),
    ],
)
def test_known_request_in_the_wrong_direction_or_to_the_wrong_recipient(
    configured: UsbBus, request_type: int, request_code: int
) -> None:
    assert control(configured, request_type, request_code, 1, 0, 2) == STALLED
    assert (configured.configuration, configured.address) == (1, 0)


async def test_task_goes_on_after_a_stall(bus: UsbBus) -> None:
    ended: list[tuple[TransferStatus, bytes]] = []
    async with trio.open_nursery() as nursery:
        nursery.start_soon(usb_ep0, bus)
        await wait_all_tasks_blocked()
        for request in (0xFF, StandardRequest.GET_STATUS):
            setup = SetupPacket(FROM_DEVICE, request, 0, 0, 2)
            bus.submit_control(ControlUrb(setup, b"", lambda *end: ended.append(end)))
        await wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert ended == [STALLED, okay(b"\0\0")]
