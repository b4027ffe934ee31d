"""What the page of `run`, `exec` and `attach` puts between a device and its hosts is met by these."""

from pathlib import Path

import pytest
import trio

from aisrv.addons.web.options import WebOptions
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board
from aisrv.cli.options.usb import UsbOptions
from aisrv.cli.serving import DeviceSet, Listening, Service, serve_devices
from aisrv.protocol.commands import Command
from phy.spi.bus import SpiTransfer
from phy.usb.bus import UsbBus
from phy.usb.taps.capture_reader import read_capture
from phy.usb.taps.fault_plan import Fault
from phy.usb.urb import TransferStatus

ASK = bytes((Command.GET_STATUS, 0, 0))


@pytest.fixture
def token(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text("T")
    return path


async def do(service: Service, target: str) -> bytes:
    """Have the page do something; return the body of the answer."""
    port = int(service.added[0].place.split(":")[3].rstrip("/"))
    head = f"Host: 127.0.0.1:{port}\r\nX-Aisrv-Token: T\r\nConnection: close\r\nContent-Length: 0\r\n"
    answer = b""
    async with await trio.open_tcp_stream("127.0.0.1", port) as page:
        await page.send_all(f"POST /do/{target} HTTP/1.1\r\n{head}\r\n".encode())
        async for piece in page:
            answer += piece
    assert answer.startswith(b"HTTP/1.1 200 "), answer
    return answer.partition(b"\r\n\r\n")[2]


async def read_status(service: Service, number: int = 0) -> TransferStatus:
    """Ask a device for its status as a host does; return how the read ended."""
    host = InProcessHost(service.ports.usb[number])
    await host.plug_in()
    await host.write(ASK)
    try:
        await host.read(64)
    except TransferFailed as failure:
        return failure.status
    return TransferStatus.OKAY


async def test_a_fault_hits_hosts_of_its_device_alone(token: Path, tmp_path: Path) -> None:
    usb = UsbOptions(pcap=tmp_path / "pcap")
    async with serve_devices(
        DeviceSet([Board(), Board()], usb=usb, added=[WebOptions(0, web_token=token)]), Listening()
    ) as service:
        assert await do(service, "fault?device=1-2&spec=stall:in:1") == b"done\n"
        assert await read_status(service, 0) is TransferStatus.OKAY
        assert await read_status(service, 1) is TransferStatus.STALL
        assert await read_status(service, 1) is TransferStatus.OKAY
    statuses = [event.event.status for event in read_capture((tmp_path / "pcap").read_bytes())]
    assert statuses.count(-32) == 1, "the capture is nearer to the host"


async def test_a_fault_of_the_page_and_one_of_the_command_line(token: Path) -> None:
    usb = UsbOptions(faults=(Fault.parse("stall:in:1"),))
    async with serve_devices(
        DeviceSet([Board()], usb=usb, added=[WebOptions(0, web_token=token)]), Listening()
    ) as service:
        await do(service, "fault?device=1-1&spec=stall:in:2")
        ended = [await read_status(service) for _ in range(3)]
    assert ended == [TransferStatus.STALL, TransferStatus.STALL, TransferStatus.OKAY]


async def test_a_trace_of_what_hosts_and_masters_do(token: Path) -> None:
    async with serve_devices(
        DeviceSet([Board()], added=[WebOptions(0, web_token=token)]), Listening()
    ) as service:
        assert await do(service, "trace?device=1-1&on=1") == b"done\n"
        await read_status(service)
        await service.ports.spi["0.0"].message([SpiTransfer(b"\x10" + bytes(6))])
        trace = await do(service, "trace?device=1-1&on=0")
    for name in (b"GET_STATUS", b"bulk IN", b"spi"):
        assert name in trace


@pytest.mark.plain_time("it asks for the plain bus")
async def test_without_a_page_nothing_is_between() -> None:
    async with serve_devices(DeviceSet([Board()], added=[WebOptions()]), Listening()) as service:
        assert [type(port) for port in service.ports.usb] == [UsbBus]
        assert service.added == []
