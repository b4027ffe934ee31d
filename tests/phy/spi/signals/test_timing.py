"""The master's timing rules: what is a breach, to the nanosecond, and what each does to the bits."""

import logging
from collections.abc import Sequence
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from aisrv.protocol.commands import Command, Spec, Status
from aisrv.xcore.node import open_node
from phy.spi.bus import LARGEST_MESSAGE, UNSTATED, SpiBus, SpiError, SpiTransfer, Timing
from phy.spi.shared_memory import SharedMemory
from phy.spi.signals.timing import Breach, CheckedPort, Rule, StrictPort, TimingRules, check
from phy.spi.slave import spi_slave

FAST = 52_631_579
"""Hertz: a period of 19 ns."""


class Slave:
    """A slave in memory: records what it is clocked, answers from a supply of bytes, zeros after that."""

    def __init__(self, miso: bytes = b"") -> None:
        self.transfers: list[tuple[bytes, bool]] = []
        self.released = 0
        self._miso = miso

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        await trio.lowlevel.checkpoint()
        answers = []
        for each in transfers:
            self.transfers.append((each.mosi, each.deselect))
            size = len(each.mosi)
            answers.append(self._miso[:size].ljust(size, b"\0"))
            self._miso = self._miso[size:]
        return answers

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        self.released += 1


def transfer(mosi: bytes, *, deselect: bool = True, hz: int | None = None, **timing: int) -> SpiTransfer:
    return SpiTransfer(mosi, deselect, hz, Timing(**timing) if timing else UNSTATED)


# What is a breach.


@pytest.mark.parametrize(
    ("hz", "period"),
    [
        (None, None),
        (0, None),
        (1, None),
        (47_619_048, None),  # 21 ns
        (50_000_000, None),  # 20 ns
        (50_000_001, 20),
        (FAST, 19),
        (4_294_967_295, 0.23283),
    ],
)
def test_clock_period(hz: int | None, period: float | None) -> None:
    (found,) = check([transfer(b"\0", hz=hz)])
    assert [each.rule for each in found] == ([] if period is None else [Rule.CLOCK_PERIOD])
    assert period is None or found[0].stated == pytest.approx(period, rel=1e-4)


@pytest.mark.parametrize(
    ("rule", "timing", "ns", "required"),
    [
        (Rule.CS_SETUP, "cs_setup", 99, 100),
        (Rule.CS_SETUP, "cs_setup", 0, 100),
        (Rule.CS_HOLD, "cs_hold", 99, 100),
        (Rule.CS_HOLD, "cs_hold", 0, 100),
        (Rule.CS_IDLE, "cs_idle", 199, 200),
        (Rule.CS_IDLE, "cs_idle", 0, 200),
    ],
)
def test_chip_select_too_early(rule: Rule, timing: str, ns: int, required: int) -> None:
    assert check([SpiTransfer(b"\0", timing=Timing(**{timing: ns}))]) == [(Breach(rule, ns, required),)]


@pytest.mark.parametrize(
    "timing", [{"cs_setup": 100}, {"cs_hold": 100}, {"cs_idle": 200}, {"cs_setup": 10**9}, {}]
)
def test_chip_select_in_time_or_unstated(timing: dict[str, int]) -> None:
    assert check([SpiTransfer(b"\0", timing=Timing(**timing))]) == [()]


def test_enable_and_idle_are_of_the_first_transfer_of_a_transaction_and_disable_of_the_last() -> None:
    early = Timing(cs_setup=1, cs_hold=2, cs_idle=3)
    first = middle = SpiTransfer(b"\0", deselect=False, timing=early)
    last = SpiTransfer(b"\0", timing=early)
    found = check([first, middle, last, last])
    rules = [[breach.rule for breach in each] for each in found]
    every = [Rule.CS_SETUP, Rule.CS_IDLE, Rule.CS_HOLD]
    assert rules == [[Rule.CS_SETUP, Rule.CS_IDLE], [], [Rule.CS_HOLD], every]
    assert check([middle], selected=True) == [()]


def test_rules_may_be_others() -> None:
    assert check([transfer(b"\0", hz=50_000_000, cs_setup=100)], rules=TimingRules(25, 101)) == [
        (Breach(Rule.CLOCK_PERIOD, 20, 25), Breach(Rule.CS_SETUP, 100, 101))
    ]


# What the log says.


async def test_log_names_rule_stated_and_required_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    slave = Slave(b"\xab\xcd")
    port = CheckedPort(slave, name="spi0.0")
    early = transfer(b"\x10\0", hz=FAST, cs_setup=99, cs_hold=98, cs_idle=199)
    assert await port.message([early, early]) == [b"\xab\xcd", b"\0\0"]
    assert slave.transfers == [(b"\x10\0", True)] * 2
    assert caplog.record_tuples == [
        (
            "phy.spi.signals.timing",
            logging.WARNING,
            (
                "spi0.0: clock period 19 ns, 20 ns or more are required; "
                "CS enable 99 ns, 100 ns or more are required; "
                "CS idle 199 ns, 200 ns or more are required; "
                "CS disable 98 ns, 100 ns or more are required"
            ),
        )
    ]


async def test_the_same_breach_is_reported_once_until_another_comes(caplog: pytest.LogCaptureFixture) -> None:
    port = CheckedPort(Slave())
    for hz in (FAST, None, FAST, 60_000_000, FAST):
        await port.message([transfer(b"\0", hz=hz)])
    assert [record.getMessage().split()[3] for record in caplog.records] == ["19", "16.667", "19"]


@pytest.mark.parametrize("kind", [CheckedPort, StrictPort])
async def test_a_master_that_keeps_the_rules_is_not_in_the_log(
    kind: type[CheckedPort], caplog: pytest.LogCaptureFixture
) -> None:
    slave = Slave(b"\x01\x02\x03")
    port = kind(slave)
    kept = [
        transfer(b"\x0a\x0b", hz=50_000_000, cs_setup=100, cs_hold=100, cs_idle=200),
        transfer(b"\x0c"),
    ]
    assert await port.message(kept) == [b"\x01\x02", b"\x03"]
    assert slave.transfers == [(b"\x0a\x0b", True), (b"\x0c", True)]
    assert caplog.records == []


async def test_chip_select_low_between_messages_is_followed(caplog: pytest.LogCaptureFixture) -> None:
    port = CheckedPort(Slave())
    await port.message([transfer(b"\0", deselect=False)])
    await port.message([transfer(b"\0", deselect=False, cs_setup=1)])
    assert caplog.records == []
    await port.release()
    await port.message([transfer(b"\0", cs_setup=1)])
    assert len(caplog.records) == 1


@pytest.mark.parametrize("kind", [CheckedPort, StrictPort])
async def test_a_real_bus_behind_it(kind: type[CheckedPort]) -> None:
    bus = SpiBus()
    port = kind(bus)

    async def slave() -> None:
        while True:
            message = await bus.next_message()
            bus.answer(message, [bytes(each.mosi[::-1]) for each in message.transfers])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave)
        assert await port.message([transfer(b"\x01\x02", deselect=False), transfer(b"")]) == [
            b"\x02\x01",
            b"",
        ]
        assert await port.message([]) == []
        await port.release()
        with pytest.raises(SpiError, match="allowed"):
            await port.message([transfer(bytes(LARGEST_MESSAGE + 1))])
        assert await port.message([transfer(b"\x03")]) == [b"\x03"]
        nursery.cancel_scope.cancel()


# What strict timing does to the bits.

# 0x10 is GET_ID; its bits late by one are 0x08, GET_SPEC, early by one 0x20.


async def strict(slave: Slave, *messages: Sequence[SpiTransfer]) -> list[list[bytes]]:
    port = StrictPort(slave)
    return [await port.message(message) for message in messages]


@pytest.mark.parametrize("hz", [None, 47_619_048, 50_000_000])
async def test_clock_of_20_ns_or_more_corrupts_nothing(hz: int | None) -> None:
    slave = Slave(b"\x80\x01\xff")
    assert await strict(slave, [transfer(b"\x10\x81\xff", hz=hz)]) == [[b"\x80\x01\xff"]]
    assert slave.transfers == [(b"\x10\x81\xff", True)]


async def test_fast_clock_makes_both_sides_a_bit_late() -> None:
    slave = Slave(b"\x80\x01\xff")
    assert await strict(slave, [transfer(b"\x10\x81\xff", hz=FAST)]) == [[b"\x40\x00\xff"]]
    assert slave.transfers == [(b"\x08\x40\xff", True)]


async def test_fast_clock_is_of_one_transfer() -> None:
    slave = Slave(b"\xff\xff\xff")
    message = [
        transfer(b"\xff", deselect=False),
        transfer(b"\xff", deselect=False, hz=FAST),
        transfer(b"\xff"),
    ]
    assert await strict(slave, message) == [[b"\xff", b"\x7f", b"\xff"]]
    assert slave.transfers == [(b"\xff", False), (b"\x7f", False), (b"\xff", True)]


@pytest.mark.parametrize(
    ("ns", "mosi", "miso"), [(99, b"\x21\x02", b"\xc0\x00"), (100, b"\x10\x81", b"\x80\x01")]
)
async def test_short_enable_costs_the_slave_the_first_clock(ns: int, mosi: bytes, miso: bytes) -> None:
    slave = Slave(b"\x80\x01")
    assert await strict(slave, [transfer(b"\x10\x81", cs_setup=ns)]) == [[miso]]
    assert slave.transfers == [(mosi, True)]


@pytest.mark.parametrize(("second", "seen"), [(b"\x00", b"\xaa"), (b"\x80", b"\xab")])
async def test_a_hello_without_its_first_clock_is_one_of_its_other_forms(second: bytes, seen: bytes) -> None:
    slave = Slave()
    await strict(slave, [transfer(b"\x55" + second, cs_setup=0)])
    assert slave.transfers[0][0][:1] == seen


async def test_short_enable_shifts_the_whole_transaction() -> None:
    slave = Slave(b"\x01\x80\x01")
    message = [
        transfer(b"\x10", deselect=False, cs_setup=0),
        transfer(b"", deselect=False),
        transfer(b"\x80\x80"),
        transfer(b"\x80"),
    ]
    assert await strict(slave, message) == [[b"\x00", b"", b"\xc0\x00", b"\x00"]]
    assert slave.transfers == [(b"\x21", False), (b"", False), (b"\x01\x00", True), (b"\x80", True)]


async def test_short_enable_lasts_over_messages_until_the_deselect() -> None:
    slave = Slave(b"\x01\x01\x01")
    got = await strict(
        slave,
        [transfer(b"\x10", deselect=False, cs_setup=0)],
        [transfer(b"\x81")],
        [transfer(b"\x81")],
    )
    assert got == [[b"\x00"], [b"\x80"], [b"\x01"]]
    assert slave.transfers == [(b"\x20", False), (b"\x02", True), (b"\x81", True)]


@pytest.mark.parametrize(
    ("ns", "mosi", "seen"),
    [
        (99, b"\x10\x01", b"\x10\x00"),
        (99, b"\x10\x02", b"\x10\x03"),
        (99, b"\x10\x03", b"\x10\x03"),
        (99, b"\x10\x00", b"\x10\x00"),
        (99, b"", b""),
        (100, b"\x10\x01", b"\x10\x01"),
        (100, b"\x10\x02", b"\x10\x02"),
    ],
)
async def test_short_disable_costs_the_slave_the_last_bit(ns: int, mosi: bytes, seen: bytes) -> None:
    slave = Slave(b"\xa5\x01")
    assert await strict(slave, [transfer(mosi, cs_hold=ns)]) == [[b"\xa5\x01"[: len(mosi)]]]
    assert slave.transfers == [(seen, True)]


async def test_short_disable_where_chip_select_stays_low_means_nothing() -> None:
    slave = Slave()
    await strict(slave, [transfer(b"\x01", deselect=False, cs_hold=0), transfer(b"")])
    assert slave.transfers == [(b"\x01", False), (b"", True)]


@pytest.mark.parametrize(("ns", "deselected"), [(199, False), (200, True)])
async def test_short_idle_in_a_message_hides_the_deselect(ns: int, deselected: bool) -> None:
    slave = Slave(b"\x01\x02\x03\x04")
    message = [transfer(b"\x10\0"), transfer(b"\x08\x81", cs_idle=ns, cs_setup=0, cs_hold=100)]
    got = await strict(slave, message)
    if deselected:  # then the first clock counts: it is missed
        assert got == [[b"\x01\x02", b"\x01\x82"]]
        assert slave.transfers == [(b"\x10\0", True), (b"\x11\x02", True)]
    else:
        assert got == [[b"\x01\x02", b"\x03\x04"]]
        assert slave.transfers == [(b"\x10\0", False), (b"\x08\x81", True)]


async def test_a_disable_that_nobody_sees_loses_no_bit() -> None:
    slave = Slave()
    await strict(slave, [transfer(b"\x01", cs_hold=0), transfer(b"\x01", cs_idle=0)])
    assert slave.transfers == [(b"\x01", False), (b"\x01", True)]


@pytest.mark.parametrize(("ns", "seen"), [(199, False), (200, True)])
async def test_short_idle_between_messages_clocks_past_the_end(ns: int, seen: bool) -> None:
    slave = Slave(b"\x01\x02\x03\x04")
    got = await strict(
        slave,
        [transfer(b"\x10")],
        [transfer(b"\x08", deselect=False, cs_idle=ns)],
        [transfer(b"\x09"), transfer(b"\x0f")],
    )
    if seen:
        assert got == [[b"\x01"], [b"\x02"], [b"\x03", b"\x04"]]
        assert len(slave.transfers) == 4
    else:
        assert got == [[b"\x01"], [b"\0"], [b"\0", b"\x02"]]
        assert slave.transfers == [(b"\x10", True), (b"\x0f", True)]


async def test_short_idle_before_the_first_transaction_has_nothing_to_run_into() -> None:
    slave = Slave(b"\x01")
    assert await strict(slave, [transfer(b"\x10", cs_idle=0)]) == [[b"\x01"]]


async def test_release_ends_what_the_slave_does_not_see() -> None:
    slave = Slave(b"\x01\x02")
    port = StrictPort(slave)
    await port.message([transfer(b"\x10")])
    await port.message([transfer(b"\x10", deselect=False, cs_idle=0)])
    await port.release()
    assert await port.message([transfer(b"\x11")]) == [b"\x02"]
    assert (slave.transfers, slave.released) == ([(b"\x10", True), (b"\x11", True)], 1)


async def test_a_message_that_was_cancelled_leaves_no_trace() -> None:
    port = StrictPort(SpiBus())  # nobody answers
    with trio.move_on_after(0) as scope:
        await port.message([transfer(b"\x10", deselect=False, cs_setup=0)])
    assert scope.cancelled_caught
    slave = Slave(b"\x01")
    port._inner = slave
    assert await port.message([transfer(b"\x10")]) == [b"\x01"]
    assert slave.transfers == [(b"\x10", True)]


async def with_the_products_slave(*transfers: SpiTransfer) -> tuple[list[bytes], SharedMemory]:
    memory = SharedMemory(
        answers={
            Command.GET_ID: b"\x78\x56\x34\x12",
            Command.GET_SPEC: bytes(Spec(tiles=2, sensor_bytes=0)),
        }
    )
    async with open_node() as node:
        bus = SpiBus()
        node.tiles[1].start(spi_slave, bus, memory, node.channel(node.tiles[1], node.tiles[1]).a)
        miso = await StrictPort(bus).message(transfers)
        node.stop()
    return miso, memory


async def test_a_fast_get_id_is_a_get_spec_to_the_slave() -> None:
    (miso,), _ = await with_the_products_slave(transfer(b"\x10" + bytes(6), hz=FAST))
    assert miso == bytes.fromhex("000000 00010000")  # 2 tiles in byte 1, all bits late by one
    (miso,), _ = await with_the_products_slave(transfer(b"\x10" + bytes(6)))
    assert miso == bytes.fromhex("000000 78563412")


async def test_a_hello_without_its_first_clock_has_no_effect() -> None:
    _, memory = await with_the_products_slave(transfer(b"\x55\0", cs_setup=0))
    assert memory.status == 0
    _, memory = await with_the_products_slave(transfer(b"\x54\0", cs_setup=0))
    assert memory.status == Status.ERROR_BAD_CMD


TIMES = st.none() | st.integers(0, 300)
TRANSFERS: Any = st.builds(
    SpiTransfer,
    st.binary(max_size=3),
    st.booleans(),
    st.sampled_from([None, FAST, 1_000_000]),
    st.builds(Timing, TIMES, TIMES, TIMES),
)


@given(st.lists(st.lists(TRANSFERS, max_size=4), max_size=4))
def test_every_transfer_is_answered_by_its_own_length(messages: list[list[SpiTransfer]]) -> None:
    got = trio.run(strict, Slave(bytes(range(1, 100))), *messages)
    assert [[len(miso) for miso in each] for each in got] == [[len(t.mosi) for t in m] for m in messages]


@given(st.lists(st.lists(TRANSFERS, max_size=4), max_size=4))
def test_whatever_was_before_a_transaction_that_keeps_the_rules_is_whole(
    messages: list[list[SpiTransfer]],
) -> None:
    async def run() -> None:
        slave = Slave()
        port = StrictPort(slave)
        for message in messages:
            await port.message(message)
        await port.release()
        slave.transfers.clear()
        await port.message([transfer(b"\x10\x81", cs_idle=200)])
        assert slave.transfers == [(b"\x10\x81", True)]

    trio.run(run)
