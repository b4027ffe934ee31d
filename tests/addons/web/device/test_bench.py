"""A bench injects faults into what hosts do, and traces a device while it runs; unused it does nothing."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.addons.web.device.bench import Bench, BenchError, open_benches
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.monitor.trace.reading import Slice, TraceReader
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import set_command
from phy.spi.bus import SpiTransfer
from phy.usb.taps.fault_plan import FaultError
from phy.usb.taps.relay_port import RelayPort
from phy.usb.urb import TransferStatus


@asynccontextmanager
async def benches(count: int = 1, *, device_time: bool = False) -> AsyncIterator[list[tuple[Device, Bench]]]:
    async with open_device(runner=inline, device_time=device_time) as device:
        names = [f"1-{number + 1}" for number in range(count)]
        async with open_benches(dict.fromkeys(names, device)) as opened:
            yield [(device, bench) for bench in opened.values()]


async def host_at(bench: Bench) -> InProcessHost:
    host = InProcessHost(bench.port)
    await host.plug_in()
    return host


async def test_a_fault_hits_the_transfer_that_it_counts_to() -> None:
    async with benches() as [(_, bench)]:
        host = await host_at(bench)
        await host.write(bytes((Command.GET_STATUS,)) + bytes(2))
        await host.read(64)
        bench.inject("stall:out:2")
        assert bench.faults == ["stall:out:2"]
        await host.write(bytes((Command.GET_STATUS,)) + bytes(2))
        await host.read(64)
        with pytest.raises(TransferFailed) as failure:
            await host.write(bytes((Command.GET_STATUS,)) + bytes(2))
        assert failure.value.status is TransferStatus.STALL
        assert bench.faults == []


async def test_what_is_no_fault_is_refused_and_nothing_is_put_in() -> None:
    async with benches() as [(_, bench)]:
        with pytest.raises(FaultError, match="'melt' is not one of stall"):
            bench.inject("melt:in:1")
        assert not any(isinstance(way, RelayPort) for way in bench._faulty._ways)


async def test_faults_are_taken_back() -> None:
    async with benches() as [(_, bench)]:
        host = await host_at(bench)
        bench.inject("drop:out:p=1")
        bench.take_faults_back()
        assert bench.faults == []
        await host.write(bytes((Command.GET_STATUS,)) + bytes(2))
        assert len(await host.read(64)) == 4


def slices(data: bytes, folder: Path) -> list[Slice]:
    path = folder / "trace"
    path.write_bytes(data)
    return list(TraceReader(path).slices())


async def test_a_trace_has_what_cores_and_hosts_did_meanwhile(tmp_path: Path) -> None:
    async with benches() as [(device, bench)]:
        await device.load_model(digits.model_bytes())
        host = await host_at(bench)
        await host.write(bytes((Command.GET_STATUS,)) + bytes(2))
        await host.read(64)
        bench.start_trace()
        assert bench.traces
        await host.write(bytes((Command.SET_INPUT_TENSOR, 0, 0)))
        await host.write(bytes(digits.test_images()[0].image))
        await host.write(bytes((Command.START_INFER,)) + bytes(2))
        await host.write(b"")
        await host.write(bytes((Command.GET_STATUS,)) + bytes(2))
        await host.read(64)
        trace = bench.stop_trace()
        assert not bench.traces
        await host.write(bytes((Command.GET_STATUS,)) + bytes(2))
        await host.read(64)
    names = [each.name for each in slices(trace, tmp_path)]
    assert names.count("START_INFER") == 1
    assert (names.count("bulk OUT"), names.count("bulk IN")) == (5, 1)


async def test_a_trace_in_device_time_has_the_operators_of_a_run(tmp_path: Path) -> None:
    async with benches(device_time=True) as [(device, bench)]:
        await device.load_model(digits.model_bytes())
        bench.start_trace()
        await set_command(device.local[0], Command.START_INFER)
        trace = bench.stop_trace()
        names = [each.name for each in device.engines[0].inference.operator_times]
    operators = [each for each in slices(trace, tmp_path) if each.category == "operator"]
    assert [each.name for each in operators] == names
    # 0.414 ms, by which the time of a run is shown, are 41,400 ticks.
    assert round(sum(int(each.arguments["ticks"]) for each in operators), -2) == 41_400


async def test_a_trace_has_spi_messages(tmp_path: Path) -> None:
    async with benches() as [(_, bench)]:
        assert bench.spi is not None
        await wait_all_tasks_blocked()
        await bench.spi.message([SpiTransfer(b"\x10" + bytes(6))])
        bench.start_trace()
        [answer] = await bench.spi.message([SpiTransfer(b"\x10" + bytes(6))])
        trace = bench.stop_trace()
        assert await bench.spi.message([SpiTransfer(b"\x10" + bytes(6))]) == [answer]
    assert [each.category for each in slices(trace, tmp_path)].count("spi") == 1


async def test_nothing_is_left_of_a_trace() -> None:
    async with benches() as [(device, bench)]:
        before = list(device.engines[0].gpio._observers)
        bench.start_trace()
        assert device.engines[0].gpio._observers != before
        assert device.node.runtime.tracer is not None
        bench.stop_trace()
        assert device.engines[0].gpio._observers == before
        assert device.node.runtime.tracer is None
        assert bench._tap._ways == (bench._faulty,)


async def test_one_trace_runs_at_a_time() -> None:
    async with benches(2) as [(_, one), (_, other)]:
        with pytest.raises(BenchError, match="no trace of 1-1 is running"):
            one.stop_trace()
        one.start_trace()
        for each in one, other:
            with pytest.raises(BenchError, match="a trace of 1-1 is running"):
                each.start_trace()
        with pytest.raises(BenchError, match="no trace of 1-2 is running"):
            other.stop_trace()
        one.stop_trace()
        other.start_trace()
        assert (one.traces, other.traces) == (False, True)


async def test_a_trace_ends_with_its_bench() -> None:
    async with open_device(runner=inline) as device:
        async with open_benches({"1-1": device}) as opened:
            opened["1-1"].start_trace()
        assert device.node.runtime.tracer is None
