"""Requests of hosts in a trace: the flow to their command, and stalls."""

from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board, UsbProtocol
from aisrv.device.device import open_devices
from aisrv.inference.process.inline import inline
from aisrv.monitor.trace.detail import Detail
from aisrv.monitor.trace.recording import TraceRecording
from aisrv.monitor.trace.sinks import FileSink
from aisrv.monitor.trace.summary import summarize
from aisrv.protocol.commands import Command
from aisrv.protocol.usb_descriptors import SetupPacket
from phy.spi.bus import SpiPort, SpiTransfer
from phy.usb.bus import HostPort
from tests.support.peers.trace_processor import TraceProcessor

Use = Callable[[HostPort, SpiPort], Awaitable[None]]


FLOWS = """
    select track.name, out.name, begun.name from flow
    join slice as out on out.id = flow.slice_out join slice as begun on begun.id = flow.slice_in
    join track on track.id = out.track_id where begun.category = 'command'
"""


def traced(path: Path, use: Use) -> None:
    """Trace a device on virtual time that a host uses."""

    async def run() -> None:
        with TraceRecording(FileSink(path), Detail.RUNS) as recording:
            tracers = [recording.tracer("1-1")]
            async with open_devices([Board()], runner=inline, tracers=tracers) as (device,):
                recording.add_outputs(0, device)
                assert device.spi is not None
                usb = recording.traced_usb(0, device.usb, UsbProtocol.AISRV)
                await use(usb, recording.traced_spi(0, "0.0", device.spi))

    trio.run(run, clock=MockClock(autojump_threshold=0))


async def get_status(usb: HostPort, _spi: SpiPort) -> None:
    host = InProcessHost(usb)
    await host.plug_in()
    await host.write(bytes((Command.GET_STATUS, 0, 0)))
    await host.read(512)


def test_a_request_over_usb_leads_to_its_command(tmp_path: Path, trace_processor: TraceProcessor) -> None:
    traced(tmp_path / "t", get_status)
    (flows,) = trace_processor.query(tmp_path / "t", FLOWS)
    assert flows == [("usb OUT 1", "bulk OUT", "GET_STATUS")]


def test_a_message_over_spi_leads_to_its_command(tmp_path: Path, trace_processor: TraceProcessor) -> None:
    async def start(_usb: HostPort, spi: SpiPort) -> None:
        await spi.message([SpiTransfer(bytes((Command.START_INFER, 0, 0)))])
        await trio.sleep(1)

    traced(tmp_path / "t", start)
    (flows,) = trace_processor.query(tmp_path / "t", FLOWS)
    assert flows == [("spi 0.0", f"message {Command.START_INFER:#04x}", "START_INFER")]


def test_a_stall_is_marked(tmp_path: Path, trace_processor: TraceProcessor) -> None:
    async def ask(usb: HostPort, _spi: SpiPort) -> None:
        with pytest.raises(TransferFailed):
            await InProcessHost(usb).control(SetupPacket(0x80, 0x55, 0, 0, 4))

    traced(tmp_path / "t", ask)
    (shown,) = trace_processor.query(
        tmp_path / "t",
        "select slice.name from slice join track on track.id = track_id where track.name = 'usb control'",
    )
    assert [name for (name,) in shown] == ["control 0x80 0x55", "STALL"]


def test_a_counter_has_the_bytes_of_requests_under_way(
    tmp_path: Path, trace_processor: TraceProcessor
) -> None:
    traced(tmp_path / "t", get_status)
    (counts,) = trace_processor.query(
        tmp_path / "t",
        "select t.name, value from counter join counter_track t on track_id = t.id "
        "where t.name like 'usb % bytes under way' and t.name not like '%control%' order by counter.id",
    )
    assert counts == [
        ("usb OUT 1 bytes under way", 3.0),
        ("usb OUT 1 bytes under way", 0.0),
        ("usb IN 1 bytes under way", 512.0),
        ("usb IN 1 bytes under way", 0.0),
    ]


def test_requests_stand_in_a_process_of_the_host(tmp_path: Path, trace_processor: TraceProcessor) -> None:
    traced(tmp_path / "t", get_status)
    (shown,) = trace_processor.query(
        tmp_path / "t",
        "select distinct process.name, process.pid, category from slice "
        "join process_track t on track_id = t.id join process using (upid) where category = 'usb'",
    )
    assert shown == [("host of 1-1", 10_000, "usb")]
    moved = summarize(tmp_path / "t").transfers
    assert moved["1-1", "usb OUT 1"][:2] == (1, 3)  # of the device, in the summary
