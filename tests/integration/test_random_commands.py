"""Random command sequences, good and bad, in both framings, against a simple model of what must be answered.

The model knows the tables of "XCORE AI server: numbers and wire behavior"; what the networks compute it
gets from the interpreter called directly.
"""

import functools
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import trio
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, Command, CommandPacket, Dialect, Status
from phy.usb.urb import TransferStatus
from tests.support import networks

DIGITS = digits.model_bytes()
ADDING = networks.two_input_add_network(16)
SHAPES = {DIGITS: ((64,), (10,), 6), ADDING: ((16, 16), (16,), 1)}
"""Input sizes, output sizes and operator count of the models that load."""


@functools.lru_cache(maxsize=4096)
def interpreted(model: bytes, *inputs: bytes) -> tuple[bytes, ...]:
    return tuple(networks.run(model, *inputs))


@dataclass
class Expected:
    """The device as its documentation has it."""

    model: bytes | None = None
    inputs: list[bytes] = field(default_factory=list)
    outputs: list[bytes] = field(default_factory=list)
    ran: bool = False
    gpio_enabled: int = 0
    gpio_mode: int = 0
    thresholds: list[int] = field(default_factory=lambda: [-128] * 4)
    errors: int = 0

    def set(self, command: int, engine: int, tensor: int, data: bytes) -> Status:
        if engine:
            return Status.ERROR_BAD_CMD  # no engine, so nobody who would remember it
        status = self._set(command, tensor, data)
        self.errors |= status
        return status

    def get(self, command: int, engine: int, tensor: int) -> tuple[Status, bytes | None]:
        """Status and data; None for data that the model does not predict."""
        if engine:
            return Status.ERROR_BAD_CMD, b""
        status, data = self._get(command, tensor)
        self.errors |= status
        return status, data

    def _set(self, command: int, tensor: int, data: bytes) -> Status:
        if command in (Command.SET_MODEL_ARENA, Command.SET_MODEL_EXT):
            return self._load(data)
        if command == Command.SET_INPUT_TENSOR:
            return self._write(tensor, data)
        if command == Command.START_INFER:
            return self._infer(data)
        if (
            command == Command.SET_OUTPUT_GPIO_EN
            and 1 <= len(data) <= 4
            and int.from_bytes(data, "little") < 2
        ):
            self.gpio_enabled = data[0]
            return Status.OKAY
        if (
            command == Command.SET_OUTPUT_GPIO_MODE
            and 1 <= len(data) <= 4
            and int.from_bytes(data, "little") < 2
        ):
            self.gpio_mode = data[0]
            return Status.OKAY
        if command == Command.SET_OUTPUT_GPIO_THRESH and 2 <= len(data) <= 4 and data[0] < 4:
            self.thresholds[data[0]] = data[1] - 256 if data[1] > 127 else data[1]
            return Status.OKAY
        return Status.ERROR_BAD_CMD

    def _load(self, data: bytes) -> Status:
        self.model, self.ran = None, False
        if data not in SHAPES:
            return Status.ERROR_MODEL_ERR
        inputs, outputs, _ = SHAPES[data]
        self.model = data
        self.inputs = [bytes(size) for size in inputs]
        self.outputs = [bytes(size) for size in outputs]
        return Status.OKAY

    def _write(self, tensor: int, data: bytes) -> Status:
        if self.model is None:
            return Status.ERROR_NO_MODEL
        if tensor >= len(self.inputs) or len(data) != len(self.inputs[tensor]):
            return Status.ERROR_BAD_CMD
        self.inputs[tensor] = data
        return Status.OKAY

    def _infer(self, data: bytes) -> Status:
        if len(data) > 4:
            return Status.ERROR_BAD_CMD
        if self.model is None:
            return Status.ERROR_NO_MODEL
        self.outputs = list(interpreted(self.model, *self.inputs))
        self.ran = True
        return Status.OKAY

    def _get(self, command: int, tensor: int) -> tuple[Status, bytes | None]:
        always = {
            Command.NONE: b"",
            Command.HELLO: b"",
            Command.GET_ID: struct.pack("<I", 0x12345678),
            Command.GET_OUTPUT_GPIO_EN: struct.pack("<I", self.gpio_enabled),
            Command.GET_OUTPUT_GPIO_MODE: struct.pack("<I", self.gpio_mode),
            Command.GET_OUTPUT_GPIO_THRESH: struct.pack("4b", *self.thresholds),
            Command.GET_DEBUG_LOG: None,
            Command.GET_BOOT: b"",
            Command.GET_MEMORY: None,
            Command.GET_TENSORS: None,
            Command.GET_ACQUIRE_MODE: bytes(4),
            Command.GET_SENSOR_TENSOR_LENGTH: bytes(4),
            Command.GET_SENSOR_FORMAT: b"",
        }
        if command in always:
            return Status.OKAY, always[Command(command)]
        if command == Command.GET_STATUS:
            errors, self.errors = self.errors, 0
            return Status.OKAY, struct.pack("<I", errors)
        if command == Command.GET_SPEC:
            shape = SHAPES[self.model] if self.model else ((), (), 0)
            words = (sum(shape[0]), sum(shape[1]), shape[2])
            return Status.OKAY, bytes.fromhex("0002000200000040") + struct.pack("<3I", *words)
        return self._get_of_model(command, tensor)

    def _get_of_model(self, command: int, tensor: int) -> tuple[Status, bytes | None]:
        tensors = {
            Command.GET_INPUT_TENSOR: self.inputs,
            Command.GET_INPUT_TENSOR_LENGTH: self.inputs,
            Command.GET_OUTPUT_TENSOR: self.outputs,
            Command.GET_OUTPUT_TENSOR_LENGTH: self.outputs,
        }
        if command not in tensors and command not in (Command.GET_TIMINGS, Command.GET_PROFILE):
            return Status.ERROR_BAD_CMD, b""
        if self.model is None:
            return Status.ERROR_NO_MODEL, b""
        if command == Command.GET_PROFILE:
            return Status.OKAY, None
        if command == Command.GET_TIMINGS:
            return Status.OKAY, None if self.ran else bytes(4 * SHAPES[self.model][2])
        values = tensors[Command(command)]
        if tensor >= len(values):
            return Status.ERROR_BAD_CMD, b""
        if command in (Command.GET_INPUT_TENSOR, Command.GET_OUTPUT_TENSOR):
            return Status.OKAY, values[tensor]
        return Status.OKAY, struct.pack("<I", len(values[tensor]))


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


@settings(max_examples=150)
@given(SEQUENCES)
def test_the_device_answers_as_documented(steps: list[tuple[int, int, int, bytes, Dialect]]) -> None:
    async def main() -> None:
        expected = Expected()
        async with open_device(runner=inline) as device:
            host = InProcessHost(device.usb)
            await host.plug_in()
            for number, (command, engine, tensor, data, dialect) in enumerate(steps):
                status, answer = await carry_out(host, CommandPacket(command, engine, tensor, dialect), data)
                where = f"step {number}: command {command:#04x}"
                if command & 0x80:
                    wanted, wanted_data = expected.set(command, engine, tensor, data), b""
                else:
                    wanted, known = expected.get(command, engine, tensor)
                    wanted_data = answer if known is None else known
                if dialect is Dialect.CLASSIC:
                    assert (status is None) == bool(wanted), where
                else:
                    assert status == wanted, where
                assert answer == wanted_data, where

    trio.run(main)
