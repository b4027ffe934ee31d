"""Random command sequences, good and bad, in both framings, against a model of what must be answered.

`make soak` does so on all wires at once; here Hypothesis finds the shortest sequence that fails.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.device.device import Device, open_device
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, Command, CommandPacket, Dialect, Status
from aisrv.protocol.engine_channel import get_command
from phy.usb.urb import TransferStatus
from tests.support import networks
from tests.support.amounts import amount
from tests.support.engines import inline_as
from tests.support.expected_engine import LOADS, ExpectedEngine
from tests.support.model_facts import facts_of

DIGITS = digits.model_bytes()
ADDING = networks.two_input_add_network(16)


IMAGES = [image for image, _ in digits.test_images()[:6]]
NO_DATA = st.just(b"")
BOUNDARIES = st.sampled_from([0, 1, 3, 4, 5, 16, 64, 65, 68, 511, 512, 513, 1024, 5000]).map(bytes)
PLAUSIBLE = {
    Command.SET_MODEL_ARENA: st.sampled_from([DIGITS, ADDING]),
    Command.SET_MODEL_EXT: st.sampled_from([DIGITS, ADDING, DIGITS[:-1]]),
    Command.SET_INPUT_TENSOR: st.sampled_from(IMAGES) | st.binary(min_size=16, max_size=16),
    Command.START_INFER: NO_DATA,
    Command.SET_OUTPUT_GPIO_EN: st.sampled_from([b"\0", b"\1", b"\2", b"\1\0\0\0"]),
    Command.SET_OUTPUT_GPIO_MODE: st.sampled_from([b"\0", b"\1", b"\2"]),
    Command.SET_OUTPUT_GPIO_THRESH: st.tuples(st.integers(0, 4), st.integers(0, 255)).map(bytes),
}
"""Data that each SET might well get."""

TENSORS = st.sampled_from([0, 0, 0, 1, 1, 2])
ENGINES = st.sampled_from([0] * 9 + [1])
DIALECTS = st.sampled_from(Dialect)


def a_step(commands: st.SearchStrategy[int]) -> st.SearchStrategy[tuple[int, int, int, bytes, Dialect]]:
    def with_data(command: int) -> st.SearchStrategy[tuple[int, int, int, bytes, Dialect]]:
        likely = PLAUSIBLE.get(Command(command), BOUNDARIES) if command in list(Command) else BOUNDARIES
        data = st.one_of(likely, likely, likely, BOUNDARIES)
        return st.tuples(st.just(command), ENGINES, TENSORS, data, DIALECTS)

    return commands.flatmap(with_data)


KNOWN = st.sampled_from([code.value for code in Command])
USUAL = st.sampled_from([command.value for command in PLAUSIBLE])
QUESTIONS = st.sampled_from(
    [Command.GET_STATUS.value, Command.GET_INPUT_TENSOR.value, Command.GET_OUTPUT_TENSOR.value]
)
WIDE = st.tuples(
    st.sampled_from([0x100, 0x101, 0x180, 0x183, 0x184, 0x8000_0001, 0xFFFF_FFFF]),
    ENGINES,
    TENSORS,
    BOUNDARIES,
    st.just(Dialect.DESIGN),
)
"""Codes that only the design framing can carry."""

STEP = st.one_of(
    a_step(USUAL), a_step(USUAL), a_step(QUESTIONS), a_step(KNOWN), a_step(st.integers(0, 255)), WIDE
)
SEQUENCES = st.lists(STEP, min_size=12, max_size=40)
Steps = list[tuple[int, int, int, bytes, Dialect]]


@contextmanager
def stalls() -> Iterator[list[TransferFailed]]:
    """Catch a transfer that ends in STALL, and no other, in the list."""
    caught: list[TransferFailed] = []
    try:
        yield caught
    except TransferFailed as failure:
        if failure.status is not TransferStatus.STALL:
            raise
        caught.append(failure)


async def carry_out(host: InProcessHost, packet: CommandPacket, data: bytes) -> tuple[Status | None, bytes]:
    """Status and data as a host sees them; in the classic framing a status is only OKAY or not (None)."""
    await host.write(bytes(packet))
    if packet.command & 0x80:
        await host.write(data, zero_packet=True)
        if packet.dialect is Dialect.DESIGN:
            return Status(int.from_bytes(await host.read(512), "little")), b""
        return (None if await halted(host) else Status.OKAY), b""
    if packet.dialect is Dialect.DESIGN:
        status = Status(int.from_bytes(await host.read(512), "little"))
        return status, b"" if status else await host.read(1 << 16)
    with stalls() as stalled:
        return Status.OKAY, await host.read(1 << 16)
    assert stalled
    await host.clear_halt(ENDPOINT_OUT)
    await host.clear_halt(ENDPOINT_IN)
    return None, b""


async def halted(host: InProcessHost) -> bool:
    """Whether the SET before failed: the next command, whose taking waits for the engine, is stalled."""
    with stalls() as stalled:
        await host.write(bytes(CommandPacket(Command.HELLO)))
        await host.read(512)
    if stalled:
        await host.clear_halt(ENDPOINT_IN)
        await host.clear_halt(ENDPOINT_OUT)
    return bool(stalled)


async def expected_engine(device: Device, steps: Steps) -> ExpectedEngine:
    facts = {
        (command, data): await facts_of(command, data) for command, _, _, data, _ in steps if command in LOADS
    }
    _, no_memory = await get_command(device.local[0], Command.GET_MEMORY)
    return ExpectedEngine(facts, no_memory)


@pytest.mark.in_full
@settings(max_examples=amount(150, every_day=50))
@given(SEQUENCES)
def test_the_device_answers_as_documented(steps: Steps) -> None:
    async def main() -> None:
        async with open_device(runner=inline_as("tflite")) as device:
            expected = await expected_engine(device, steps)
            host = InProcessHost(device.usb)
            await host.plug_in()
            for number, (command, engine, tensor, data, dialect) in enumerate(steps):
                status, answer = await carry_out(host, CommandPacket(command, engine, tensor, dialect), data)
                where = f"step {number}: command {command:#04x}"
                wanted, wanted_data = Status.ERROR_BAD_CMD, b""  # of an engine that is not there
                if not engine and command & 0x80:
                    wanted = expected.set(command, tensor, data)
                elif not engine:
                    wanted, known = expected.get(command, tensor)
                    assert known is not None or expected.takes(command, answer), where
                    wanted_data = answer if known is None else known
                if dialect is Dialect.CLASSIC:
                    assert (status is None) == bool(wanted), where
                else:
                    assert status == wanted, where
                assert answer == wanted_data, where
            assert bytes(device.engines[0].log) == expected.log_bytes

    trio.run(main)
