"""Random transactions, against a model of the device without tasks, channels or code of the product's."""

from dataclasses import dataclass, field

import trio
from hypothesis import given, settings
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from aisrv.protocol.commands import Spi, commands_of
from aisrv.protocol.engine_channel import MODEL_CHANGED
from aisrv.xcore.tokens import Control
from tests.support.amounts import in_ci
from tests.support.benches import spi_master as spi
from tests.support.benches.scripted_engine import Recorded
from tests.support.benches.spi_master import SpiDevice, spi_device
from tests.support.peers.usb_host import pattern

ENGINE_SETS = (spi.SET_INPUT, spi.SET_ARENA, spi.SET_EXT)
SETS = (*ENGINE_SETS, spi.SET_SERVER)
BARE = (spi.START_INFER, spi.ACQUIRE_SINGLE)
READS = sorted(commands_of(Spi.READ))
QUIET = (0x00, 0x55, 0xAA, 0xAB)


def answers(number: int) -> dict[int, bytes]:
    """What the engine answers from some moment on."""
    return {
        spi.GET_SPEC: spi.SPEC[:16] + bytes((number, 0, 0, 0)),
        spi.GET_OUTPUT: b"output %d" % number,
        spi.GET_TIMINGS: b"time%4d" % number,
        spi.GET_SENSOR: b"frame %d" % number,
        spi.GET_DEBUG_LOG: (b"log %d" % number).ljust(40, b"\0"),
    }


@dataclass
class Expected:
    """The device in the words of the wire's description."""

    answers: dict[int, bytes] = field(default_factory=lambda: answers(0))
    statuses: dict[int, int] = field(default_factory=dict)
    shown: dict[int, bytes] = field(default_factory=dict)
    errors: int = 0
    held: bool = False
    waiting: tuple[int, bytes] | None = None
    opened: int | None = None
    data: bytes = b""
    reached: list[Recorded] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.shown[spi.GET_ID] = spi.ID
        self.shown[spi.GET_SPEC] = self.answers[spi.GET_SPEC]

    def transaction(self, mosi: bytes) -> bytes:
        zeros = bytes(len(mosi))
        if not mosi or mosi[0] in QUIET:
            return zeros
        command, data = mosi[0], mosi[1:]
        if command == spi.GET_STATUS:
            answer = self._status().to_bytes(4, "little")
            self.errors = 0 if len(mosi) > 3 else self.errors
        elif self.waiting is not None or command not in (*READS, *SETS, *BARE):
            self.errors |= spi.BAD_CMD
            return zeros
        elif command in READS:
            answer = self.shown.get(command, b"")
        else:
            self.waiting = command, data
            if not self.held or (command in SETS and len(data) == 512):
                self._act()
            return zeros
        return (bytes(3) + answer + zeros)[: len(mosi)]

    def release(self) -> None:
        self.held = False
        if self.waiting is not None:
            self._act()

    def notify(self) -> None:
        self.shown[spi.GET_SPEC] = self.answers[spi.GET_SPEC]
        self.shown[spi.GET_OUTPUT] = self.shown[spi.GET_TIMINGS] = b""

    def _status(self) -> int:
        if self.waiting is None:
            return self.errors
        command, data = self.waiting
        sensing = command == spi.ACQUIRE_SINGLE and len(data) <= 512
        return self.errors | spi.BUSY | (spi.SENSING if sensing else 0)

    def _act(self) -> None:
        assert self.waiting is not None
        (command, data), self.waiting = self.waiting, None
        if self.opened is not None and (command != self.opened or len(data) > 512):
            self._reach(self.opened, self.data, abandoned=True)
            self.opened, self.data = None, b""
        if command in SETS:
            self._block(command, data)
        elif command == spi.START_INFER:
            self._reach(command, b"")
            if not self._fail(self.statuses.get(command, 0)):
                self.shown[spi.GET_OUTPUT] = self.answers[spi.GET_OUTPUT]
                self.shown[spi.GET_TIMINGS] = self.answers[spi.GET_TIMINGS]
        elif len(data) > 512:
            self._fail(spi.BAD_CMD)
        else:
            self._reach(command, data if data.strip(b"\0") else b"")
            if not self._fail(self.statuses.get(command, 0)):
                self.shown[spi.GET_OUTPUT] = self.answers[spi.GET_SENSOR]

    def _block(self, command: int, data: bytes) -> None:
        if len(data) > 512:
            self._fail(spi.BAD_CMD)
            return
        self.opened, self.data = command, self.data + data
        if len(data) < 512:
            self._reach(command, self.data)
            self.opened, self.data = None, b""
            self._fail(spi.BAD_CMD if command == spi.SET_SERVER else self.statuses.get(command, 0))
            if command in (spi.SET_ARENA, spi.SET_EXT):
                self.notify()

    def _reach(self, command: int, data: bytes, *, abandoned: bool = False) -> None:
        if command != spi.SET_SERVER:
            self.reached.append(Recorded(command, 0, data, abandoned))

    def _fail(self, status: int) -> int:
        self.errors |= status
        if status:
            self.shown[spi.GET_DEBUG_LOG] = self.answers[spi.GET_DEBUG_LOG]
        return status


TRANSACTIONS = st.one_of(
    st.builds(
        lambda command, size: bytes((command,)) + bytes(size), st.sampled_from(READS), st.integers(0, 50)
    ),
    st.builds(
        lambda command, size: bytes((command,)) + pattern(size),
        st.sampled_from((*SETS, *BARE)),
        st.sampled_from((0, 1, 3, 4, 511, 512, 512, 512, 513, 1024)),
    ),
    st.binary(max_size=6),
)
CLOCKED = st.tuples(
    st.just("transaction"), TRANSACTIONS, st.lists(st.integers(0, 20), max_size=3), st.booleans()
)
STEPS = st.lists(
    st.one_of(
        CLOCKED,
        CLOCKED.map(lambda step: step),  # another branch: a transaction is more likely than the rest
        st.tuples(st.sampled_from(("hold", "release", "notify"))),
        st.tuples(st.just("answers"), st.integers(1, 255)),
        st.tuples(
            st.just("status"), st.sampled_from((*ENGINE_SETS, *BARE)), st.sampled_from((0, 4, 8, 16, 32))
        ),
    ),
    min_size=20,
    max_size=80,
)


async def clock(device: SpiDevice, mosi: bytes, cuts: list[int], messages: bool) -> bytes:
    """One transaction in several transfers, or in several messages."""
    transfers = spi.cut(mosi, *sorted(cuts))
    if messages:
        return b"".join([(await device.bus.message([each]))[0] for each in transfers])
    return b"".join(await device.bus.message(transfers))


@settings(max_examples=in_ci(60, every_day=20))
@given(STEPS)
def test_random_transactions(steps: list[tuple[object, ...]]) -> None:
    trio.run(follow, steps)


async def follow(steps: list[tuple[object, ...]]) -> None:
    expected = Expected()
    with trio.fail_after(60):
        async with spi_device() as device:
            device.engine.answers[spi.GET_SPEC] = expected.answers[spi.GET_SPEC]
            await device.notifications.outct(MODEL_CHANGED)
            await device.notifications.chkct(Control.ACK)
            await wait_all_tasks_blocked()
            device.engine.answers.update(expected.answers)
            for step in steps:
                match step:
                    case "transaction", bytes(mosi), list(cuts), bool(messages):
                        assert await clock(device, mosi, cuts, messages) == expected.transaction(mosi)
                    case ("hold",) if not expected.held:
                        device.engine.hold()
                        expected.held = True
                    case ("release",):
                        device.engine.release()
                        expected.release()
                    case ("notify",) if not expected.held and expected.opened is None:
                        await device.notifications.outct(MODEL_CHANGED)
                        await device.notifications.chkct(Control.ACK)
                        expected.notify()
                    case "answers", int(number):
                        expected.answers = answers(number)
                        device.engine.answers.update(expected.answers)
                    case "status", int(command), int(status) if expected.waiting is None:
                        device.engine.statuses[command] = expected.statuses[command] = status
                await wait_all_tasks_blocked()
            device.engine.release()
            expected.release()
            await wait_all_tasks_blocked()
            assert await device.status() == expected.errors
            for command in set(READS) - {spi.GET_STATUS}:
                assert await device.read(command, 64) == expected.shown.get(command, b"").ljust(64, b"\0")
            assert device.commands() == expected.reached
