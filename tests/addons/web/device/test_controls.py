"""Controls of the bench: faults and traces, and what they refuse."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from aisrv.addons.web.device.bench import Bench, open_benches
from aisrv.addons.web.device.controls import CONTROLS, Controls, Target
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.listeners.websocket import Refused


@asynccontextmanager
async def controls() -> AsyncIterator[tuple[Controls, Bench]]:
    """The controls of a device with a bench, and of one without, `bare`."""
    async with open_device(runner=inline) as device, open_benches({"1-1": device}) as benches:
        bench = benches["1-1"]
        yield Controls({"1-1": Target(device, bench.port, bench), "bare": Target(device, device.usb)}), bench


async def do(controls: Controls, name: str, **values: str) -> str | bytes:
    return await controls.do(CONTROLS[name], {"device": "1-1", **values}, b"")


async def test_faults_are_injected_and_taken_back() -> None:
    async with controls() as (them, bench):
        assert await do(them, "fault", spec="nak:out:2:1.5s") == "done"
        assert await do(them, "fault", spec="stall:in:p=0.5") == "done"
        assert bench.faults == ["nak:out:2:1.5s", "stall:in:p=0.5"]
        assert await do(them, "no-faults") == "done"
        assert bench.faults == []


async def test_a_trace_is_started_and_answered() -> None:
    async with controls() as (them, bench):
        assert await do(them, "trace", on="1") == "done"
        assert bench.traces
        trace = await do(them, "trace", on="0")
        assert isinstance(trace, bytes)
        assert b"1-1" in trace
        assert not bench.traces


@pytest.mark.parametrize(
    ("name", "values", "status", "text"),
    [
        ("fault", {"spec": "stall:in"}, 400, "fault 'stall:in': write KIND:WHERE:WHEN"),
        ("fault", {}, 400, "fault ''"),
        ("fault", {"spec": "nak:in:1"}, 400, "fault 'nak:in:1': nak needs a time"),
        ("fault", {"spec": "stall:in:1", "device": "bare"}, 404, "this device takes no faults and no traces"),
        ("no-faults", {"device": "bare"}, 404, "this device takes no faults and no traces"),
        ("trace", {"on": "1", "device": "bare"}, 404, "this device takes no faults and no traces"),
        ("trace", {"on": "0"}, 409, "no trace of 1-1 is running"),
        ("trace", {"on": "2"}, 400, "on is a whole number from 0 to 1, not 2"),
    ],
)
async def test_what_the_bench_refuses(name: str, values: dict[str, str], status: int, text: str) -> None:
    async with controls() as (them, bench):
        with pytest.raises(Refused) as refusal:
            await do(them, name, **values)
        assert (refusal.value.status, str(refusal.value)[: len(text)]) == (status, text)
        assert not bench.faults
        assert not bench.traces


async def test_one_trace_runs_at_a_time() -> None:
    async with controls() as (them, _):
        await do(them, "trace", on="1")
        with pytest.raises(Refused, match="a trace of 1-1 is running") as refusal:
            await do(them, "trace", on="1")
        assert refusal.value.status == 409
