"""xscope's probes in Python: what cores record, and who hears of it."""

import logging

import pytest

from aisrv.xcore import xscope
from aisrv.xcore.core import Core
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.probes import (
    LARGEST_RECORD,
    LONGEST_NAME,
    MOST_PROBES,
    DataType,
    Probe,
    ProbeEvent,
    ProbeKind,
    Value,
)
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Trap, TrapKind
from tests.support.benches.simulation import simulated

LEVEL = Probe("level", ProbeKind.CONTINUOUS, DataType.INT, "mV")
COUNT = Probe("count", ProbeKind.DISCRETE, DataType.UINT)
BUSY = Probe("busy", ProbeKind.STARTSTOP, DataType.NONE)
OFF = Probe("off", ProbeKind.CONTINUOUS, DataType.UINT, is_enabled=False)
V, START, STOP = ProbeEvent.VALUE, ProbeEvent.START, ProbeEvent.STOP


class Hearing(Tracer):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.records: list[tuple[str, ProbeEvent, Value]] = []
        self.places: list[tuple[int | None, int, int]] = []
        self.registered: list[tuple[int, str]] = []

    def probe_registered(self, tile: int, probe: Probe) -> None:
        self.registered.append((tile, probe.name))

    def probed(
        self, core: Core | None, tile: int, probe: Probe, event: ProbeEvent, value: Value, tick: int
    ) -> None:
        self.records.append((probe.name, event, value))
        self.places.append((None if core is None else core.number, tile, tick))


@simulated
async def test_each_function_records_what_it_says() -> None:
    async def record() -> None:
        xscope.xscope_register(LEVEL, COUNT, BUSY)
        for probe in (xscope.xscope_number("level"), xscope.xscope_number("count")):
            xscope.xscope_char(probe, 0x1FF)
            xscope.xscope_short(probe, -1)
            xscope.xscope_int(probe, -2)
            xscope.xscope_longlong(probe, -3)
            xscope.xscope_longlong(probe, 1 << 40)
        xscope.xscope_float(0, 0.5)
        xscope.xscope_double(0, 1)
        xscope.xscope_bytes(1, b"\0\xff")
        xscope.xscope_start(2)
        xscope.xscope_stop(2)
        xscope.xscope_start_int(2, 7)
        xscope.xscope_stop_int(2, 8)
        xscope.xscope_ping()

    heard = Hearing()
    async with open_node() as node:
        with node.tracing(heard):
            node.tiles[1].start(record)
            timer = node.tiles[1].allocate_timer()
            await timer.wait_after(timer.now())
    assert heard.registered == [(1, "level"), (1, "count"), (1, "busy")]
    assert heard.records == [
        *[("level", V, value) for value in (255, 65535, -2, -3, 1 << 40)],
        *[("count", V, value) for value in (255, 65535, (1 << 32) - 2, (1 << 64) - 3, 1 << 40)],
        ("level", V, 0.5),
        ("level", V, 1.0),
        ("count", V, b"\0\xff"),
        *[("busy", START, None), ("busy", STOP, None), ("busy", START, 7), ("busy", STOP, 8)],
        ("ping", V, None),
    ]
    assert set(heard.places) == {(0, 1, 0)}


async def recorded(node: Node, *numbers: int) -> list[tuple[str, ProbeEvent, Value]]:
    """What is heard of a record on each of these probes of tile 0."""
    heard = Hearing()
    with node.tracing(heard):
        for number in numbers:
            node.runtime.xscope.record(0, number, V, number)
    return heard.records


@simulated
async def test_a_disabled_probe_or_tile_records_nothing() -> None:
    async with open_node() as node:
        node.runtime.xscope.configure((COUNT, OFF))
        assert await recorded(node, 0, 1, 255) == [("count", V, 0)]
        node.runtime.xscope.enable(0, is_on=False)
        node.runtime.xscope.ping(0)
        assert await recorded(node, 0) == []
        node.runtime.xscope.enable(0)
        assert await recorded(node, 0) == [("count", V, 0)]


@simulated
async def test_a_number_that_no_probe_has_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async with open_node() as node:
        node.runtime.xscope.register(0, [COUNT])
        with caplog.at_level(logging.WARNING):
            assert await recorded(node, *[1, 2, 255] * 1000, 0) == [("count", V, 0)]
    assert [record.getMessage() for record in caplog.records] == [
        "tile 0 records on probe 1, and has 1",
        "tile 0 records on probe 2, and has 1",
    ]


@simulated
async def test_a_config_file_comes_before_what_programs_register() -> None:
    async with open_node() as node:
        node.runtime.xscope.configure([LEVEL])
        node.runtime.xscope.register(0, [COUNT, BUSY])
        assert await recorded(node, 0) == [("level", V, 0)]
        assert [node.runtime.xscope.number_of("level", tile) for tile in (0, 1)] == [0, 0]
        with pytest.raises(Trap, match="tile 1 has no probe 'count'"):
            node.runtime.xscope.number_of("count", 1)


@simulated
async def test_too_many_probes_long_names_and_large_records_trap() -> None:
    async with open_node() as node:
        node.runtime.xscope.register(0, [COUNT] * MOST_PROBES)
        long = Probe("x" * (LONGEST_NAME + 1), ProbeKind.DISCRETE, DataType.UINT)
        for probes in ([COUNT] * (MOST_PROBES + 1), [long]):
            with pytest.raises(Trap, match="xscope_register: ") as trap:
                node.runtime.xscope.register(0, probes)
            assert trap.value.kind is TrapKind.ECALL
    with pytest.raises(Trap, match="65537 bytes are more than 65536"):
        xscope.xscope_bytes(0, bytes(LARGEST_RECORD + 1))
    with pytest.raises(Trap, match="xscope outside of any core"):
        xscope.xscope_int(0, 1)
