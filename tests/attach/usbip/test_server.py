"""USB/IP before and around an import: device lists, imports, refusals, the end of a host."""

import struct

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.usbip import server as usbip_server
from aisrv.attach.usbip.server import Export, UsbipServer
from aisrv.protocol.usb_descriptors import (
    ConfigurationDescriptor,
    Descriptors,
    DeviceDescriptor,
    InterfaceDescriptor,
)
from phy.usb.bus import UsbBus
from tests.support.benches.usb_firmware import idle, loopback
from tests.support.peers.usbip_host import (
    DEVICE_DESCRIPTOR,
    EPIPE,
    GET_DEVICE_DESCRIPTOR,
    Answer,
    UsbipHost,
    control_in,
    request_import,
    served,
    submit_in,
    submit_out,
    unlink,
)

REQUEST_LIST = bytes.fromhex("0111800500000000")
LIST_HEADER = bytes.fromhex("0111000500000000")
IMPORTED = bytes.fromhex("0111000300000000")
REFUSED = bytes.fromhex("0111000300000001")


def record(number: int) -> bytes:
    """struct usbip_usb_device of a device of ours: configured by nobody, high speed, one interface."""
    busid = f"1-{number}".encode()
    return struct.pack(
        ">256s32s3I3H6B",
        b"/sys/devices/aisrv/" + busid,
        busid,
        1,
        number,
        3,
        0x20B1,
        0xA15E,
        0x1000,
        *(0xFF, 0xFF, 0xFF),
        *(1, 1, 1),
    )


@pytest.mark.parametrize("count", [0, 1, 3])
async def test_device_list(count: int) -> None:
    async with served(*[idle] * count) as server:
        host = await server.connect()
        await host.stream.send_all(REQUEST_LIST)
        devices = b"".join(record(number) + b"\xff\xff\xff\0" for number in range(1, count + 1))
        assert await host.leave() == LIST_HEADER + struct.pack(">I", count) + devices


async def test_device_list_has_every_interface() -> None:
    interfaces = (
        InterfaceDescriptor(),
        InterfaceDescriptor(
            number=1, alternate=0, interface_class=3, interface_subclass=1, interface_protocol=2
        ),
    )
    bus = UsbBus(Descriptors(DeviceDescriptor(), ConfigurationDescriptor(interfaces=interfaces)))
    async with trio.open_nursery() as nursery:
        address = await nursery.start(UsbipServer([Export(bus, "2-1")]).serve, "127.0.0.1", 0)
        host = UsbipHost(await trio.open_tcp_stream(*address))
        await host.stream.send_all(REQUEST_LIST)
        answer = await host.leave()
        assert answer[12 + 312 - 1 :] == b"\x02" + bytes.fromhex("ffffff00 03010200")
        UsbipHost.close_all()
        nursery.cancel_scope.cancel()


async def test_an_interface_with_several_settings_is_one() -> None:
    interfaces = (
        InterfaceDescriptor(number=0, alternate=0, interface_class=1),
        InterfaceDescriptor(number=0, alternate=1, interface_class=2),
        InterfaceDescriptor(number=1, alternate=0, interface_class=3),
    )
    bus = UsbBus(Descriptors(DeviceDescriptor(), ConfigurationDescriptor(interfaces=interfaces)))
    exported = Export(bus, "1-1")
    assert exported.record.interface_count == 2
    assert exported.interfaces == bytes.fromhex("01ffff00 03ffff00")


async def test_a_device_is_exported_as_its_descriptors_are_now() -> None:
    bus = UsbBus(Descriptors())
    exported = Export(bus, "1-1")
    bus.descriptors = Descriptors(DeviceDescriptor(product=7))
    assert exported.record.product == 7


async def test_import_after_device_lists_on_one_connection() -> None:
    async with served(idle) as server:
        host = await server.connect()
        await host.stream.send_all(REQUEST_LIST + REQUEST_LIST + request_import())
        await host.receive(2 * (8 + 4 + 312 + 4))
        assert await host.receive(320) == IMPORTED + record(1)


async def test_import_of_the_second_device() -> None:
    async with served(idle, idle) as server:
        host = await server.connect()
        await host.stream.send_all(request_import(b"1-2"))
        assert await host.receive(320) == IMPORTED + record(2)
        assert [each.imported_by is not None for each in server.exports] == [False, True]


@pytest.mark.parametrize("busid", [b"1-2", b"", b"1-1x", b"\xff" * 32, b"1" * 32, b"../1-1"])
async def test_unknown_bus_id_is_refused(busid: bytes, caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        host = await server.connect()
        await host.stream.send_all(request_import(busid))
        assert await host.ended() == REFUSED
        (line,) = caplog.records
        assert "which does not exist" in line.getMessage()
        await (await server.attach()).works()


async def test_second_import_is_refused_while_the_first_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    async with served(loopback) as server:
        first = await server.attach()
        await first.send(submit_in(1, 512))
        second = await server.connect()
        await second.stream.send_all(request_import())
        assert await second.ended() == REFUSED
        (line,) = caplog.records
        assert "which is imported by 127.0.0.1:" in line.getMessage()
        assert await first.ask(submit_out(2, b"still mine")) == Answer(3, 2, 0, 10)
        assert await first.answer() == Answer(3, 1, 0, 10, b"still mine")


@pytest.mark.parametrize("version", [0x0000, 0x0100, 0x0106, 0x0110, 0x0112, 0x1101, 0xFFFF])
@pytest.mark.parametrize("code", [0x8003, 0x8005])
async def test_wrong_version(version: int, code: int, caplog: pytest.LogCaptureFixture) -> None:
    async with served(idle) as server:
        host = await server.connect()
        await host.stream.send_all(struct.pack(">HHI", version, code, 0))
        assert await host.ended() == b""
        (line,) = caplog.records
        assert f"speaks version 0x{version:04x}, not 0x0111" in line.getMessage()


@pytest.mark.parametrize("code", [0x0000, 0x0003, 0x8004, 0x8006, 0xFFFF])
async def test_unknown_operation(code: int, caplog: pytest.LogCaptureFixture) -> None:
    async with served(idle) as server:
        host = await server.connect()
        await host.stream.send_all(struct.pack(">HHI", 0x0111, code, 0))
        assert await host.ended() == b""
        (line,) = caplog.records
        assert f"asked for operation 0x{code:04x}, which is unknown" in line.getMessage()


@pytest.mark.parametrize("begun", [b"", REQUEST_LIST[:1], request_import()[:8], request_import()[:39]])
async def test_silence_before_an_import(
    begun: bytes, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usbip_server, "GREETING_SECONDS", 0.02)
    caplog.set_level("INFO")
    async with served(idle) as server:
        host = await server.connect()
        await host.stream.send_all(begun)
        assert await host.ended() == b""
        (line,) = caplog.records
        assert "was silent for 0.02 s; connection closed" in line.getMessage()


async def test_host_may_be_silent_after_an_import(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usbip_server, "GREETING_SECONDS", 0.02)
    async with served(loopback) as server:
        host = await server.attach()
        await trio.sleep(0.05)
        await host.works()


async def test_device_is_not_configured_after_an_import() -> None:
    async with served(loopback) as server:
        await (await server.attach()).leave()
        host = await server.connect()
        await host.stream.send_all(request_import())
        await host.receive(320)
        assert await host.ask(control_in(1, bytes.fromhex("8008000000000100"))) == Answer(3, 1, 0, 1, b"\0")
        assert await host.ask(submit_out(2, b"early")) == Answer(3, 2, EPIPE)
        assert await host.ask(submit_in(3, 512)) == Answer(3, 3, EPIPE)


async def test_leaving_drops_requests_and_clears_halts() -> None:
    async with served(idle) as server:
        host = await server.attach()
        await host.send(submit_out(1, bytes(1000)), submit_in(2, 512))
        assert (await host.ask(control_in(3, GET_DEVICE_DESCRIPTOR))).data == DEVICE_DESCRIPTOR
        assert (server.bus.out_endpoint.pending, server.bus.in_endpoint.pending) == (1, 1)
        server.bus.in_endpoint.halt()
        await host.leave()
        server.assert_unused()
        assert not server.bus.in_endpoint.halted


async def test_leaving_is_a_reset_for_the_firmware() -> None:
    """A transfer that one host has begun does not run into that of the next."""
    async with served(loopback) as server:
        host = await server.attach()
        assert await host.ask(submit_out(1, bytes(512))) == Answer(3, 1, 0, 512)
        await host.leave()
        await (await server.attach()).works(b"mine alone")


async def test_answers_of_one_host_never_reach_the_next() -> None:
    async with served(loopback) as server:
        first = await server.attach()
        await first.send(submit_in(1, 512))
        await first.leave()
        second = await server.attach()
        assert await second.ask(submit_out(2, b"who asked?")) == Answer(3, 2, 0, 10)
        assert await second.ask(unlink(3, 1)) == Answer(4, 3, 0)
        assert await second.ask(submit_in(1, 512)) == Answer(3, 1, 0, 10, b"who asked?")


async def test_several_devices_serve_their_hosts_at_once() -> None:
    async with served(loopback, loopback, loopback) as server, trio.open_nursery() as nursery:

        async def transfer(number: int) -> None:
            host, devid = await server.attach(f"1-{number}"), 0x10000 | number
            for size in range(1, 200):
                data = bytes((number,)) * size
                await host.send(submit_in(1, 512, devid=devid), submit_out(2, data, devid=devid))
                assert set(await host.answers(2)) == {Answer(3, 1, 0, size, data), Answer(3, 2, 0, size)}

        for number in (1, 2, 3):
            nursery.start_soon(transfer, number)


async def test_host_that_breaks_off_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO")
    async with served(idle) as server:
        host = await server.attach()
        await host.send(submit_in(1, 512))
        await wait_all_tasks_blocked(0.01)
        caplog.clear()
        host.reset()
        await wait_all_tasks_blocked(0.01)
        released, gone = [line.getMessage() for line in caplog.records]
        assert released.endswith("released 1-1")
        assert "went away" in gone


async def test_port_that_is_taken() -> None:
    async with served(idle) as server:
        with pytest.raises(OSError, match="in use"):
            await UsbipServer([]).serve("127.0.0.1", server.port)


async def test_server_that_stops_lets_go_of_its_devices() -> None:
    exported = Export(UsbBus(Descriptors()), "1-1")
    async with trio.open_nursery() as nursery:
        address = await nursery.start(UsbipServer([exported]).serve, "127.0.0.1", 0)
        host = UsbipHost(await trio.open_tcp_stream(*address))
        await host.stream.send_all(request_import())
        await host.receive(320)
        assert exported.imported_by is not None
        nursery.cancel_scope.cancel()
    assert exported.imported_by is None
    assert await host.ended() == b""
    UsbipHost.close_all()
