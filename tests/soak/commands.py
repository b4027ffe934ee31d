"""Random commands over all wires at once, each answer predicted by `ExpectedEngine`.

One device has USB in its three framings, SPI and a local client on one engine; another speaks ioserver with
three models, and has local clients too. Commands that are under way at the same time must have been carried
out in some order; sets that come in blocks are given up, and interrupted by others.
"""

import itertools
import logging
import random
import struct
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import trio
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board import Board, EngineSpec, SensorSpec, UsbProtocol
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.inference.timings import DeviceModel, Memory, estimate_note
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model.reader import read_model
from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT, Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.sensors.image.frame import Encoding, RawFrame
from phy.spi.bus import SpiBus
from phy.usb.urb import TransferStatus
from tests.soak.check import Check, Figures
from tests.support.models import networks
from tests.support.models.model_facts import facts_of
from tests.support.oracles.expected_engine import (
    LOADS,
    ExpectedEngine,
    ModelFacts,
    frame_data,
    interpreted,
)

DIGITS: Final = digits.model_bytes()
ADDING: Final = networks.two_input_add_network(16)
TWO_OUTPUTS: Final = digits.two_output_model_bytes()
BAD_MODELS: Final = (b"", b"nonsense", DIGITS[:-1], DIGITS[:512], bytes(513))
GOOD_MODELS: Final = (DIGITS, ADDING, TWO_OUTPUTS)
IMAGES: Final = [image for image, _ in digits.test_images()[:8]]
LENGTHS: Final = (0, 1, 2, 3, 4, 5, 16, 60, 64, 65, 68, 511, 512, 513, 1024, 5000)

GETS: Final = tuple(each.value for each in Command if not each & 0x80 and each != Command.SET_SERVER)
SETS: Final = tuple(each.value for each in Command if each & 0x80)
SPI_READS: Final = (0x01, 0x05, 0x08, 0x09, 0x0F, 0x10, 0x14, 0x1A)
SPI_SILENT: Final = (0x00, 0x55, 0xAA, 0xAB)
SPI_REFUSED: Final = (0x03, 0x0A, 0x11, 0x15, 0x16, 0x18, 0x19, 0x8D, 0x91, 0x96, 0x42, 0xFF)
BLOCK: Final = 512
RECORDED: Final = 8
"""Steps that are shown with a fault."""

Answer = tuple[Status | None, bytes]
"""Status and data; the classic framing tells only whether a command failed: None."""


class NumberedFrames:
    """A sensor of 64 samples, another frame each time."""

    width, height, encoding = 64, 1, Encoding.SAMPLES

    def __init__(self) -> None:
        self._number = 0

    async def frame(self) -> RawFrame:
        await trio.lowlevel.checkpoint()
        self._number += 1
        return RawFrame(self.width, self.height, self.encoding, frame_data(self._number))


class SummingRun:
    """The last three inputs of `networks.summing_network`, added; a reset forgets them."""

    def __init__(self) -> None:
        self._last: deque[tuple[float, ...]] = deque(maxlen=3)

    def __call__(self, _model: bytes, data: bytes) -> tuple[bytes, ...]:
        self._last.append(struct.unpack("<4f", data))
        return (struct.pack("<4f", *map(sum, zip(*self._last, strict=True))),)

    def reset(self) -> None:
        self._last.clear()


@dataclass(frozen=True)
class Step:
    """A command on a wire: how it is carried out, and what must come of it."""

    name: str
    carry_out: Callable[[], Awaitable[Answer]]
    predict: Callable[[ExpectedEngine], tuple[Status | None, bytes | None]]
    check: Callable[[ExpectedEngine, bytes], bool] = lambda _engine, _data: True
    """Judges data that are not predicted to the byte."""


def agrees(step: Step, engine: ExpectedEngine, answer: Answer) -> str:
    """Carry a step out on the model: empty where the answer is the predicted one."""
    status, data = step.predict(engine)
    got_status, got = answer
    if got_status is None:
        if not status:
            return f"{step.name}: failed, predicted {status!r} {data!r}"
    elif got_status != status:
        return f"{step.name}: {got_status!r} in place of {status!r}"
    if data is None:
        return "" if step.check(engine, got) else f"{step.name}: {got!r} is not one of its answers"
    return "" if got == data else f"{step.name}: {got!r} in place of {data!r}"


def command_of(chance: random.Random, *, sets: Sequence[int] = SETS) -> tuple[int, int, int, bytes]:
    """Return a command, an engine, a tensor and data."""
    engine, tensor = chance.choice((0,) * 12 + (1, 255)), chance.choice((0, 0, 0, 0, 1, 1, 2, 255))
    dice = chance.random()
    if dice < 0.45:
        return chance.choice((*GETS, 0x01, 0x03, 0x05, 0x05)), engine, tensor, b""
    if dice < 0.5:
        return chance.randrange(0x100), engine, tensor, bytes(chance.choice(LENGTHS))
    command = chance.choice((*sets, 0x83, 0x83, 0x84, 0x84, 0x84))
    return command, engine, tensor, data_of(chance, command)


def data_of(chance: random.Random, command: int) -> bytes:
    """Return data that a SET might well have, or not."""
    if command in LOADS:
        return chance.choice((DIGITS, ADDING, ADDING, TWO_OUTPUTS, *BAD_MODELS))
    if command == Command.START_ACQUIRE_SET_I2C:
        return bytes(chance.choice((0, 1, 2, 5, 512)))
    if command == Command.START_ACQUIRE_STREAM:
        return bytes(chance.choice((5, 64, 512)))
    if chance.random() < 0.15:
        return bytes(chance.choice(LENGTHS))
    match command:
        case Command.SET_INPUT_TENSOR:
            return chance.choice((*IMAGES, *IMAGES, bytes([chance.randrange(60)]) * 16))
        case Command.SET_SENSOR_TENSOR:
            return bytes((chance.randrange(256),)) * 64
        case Command.SET_OUTPUT_GPIO_EN | Command.SET_OUTPUT_GPIO_MODE:
            return chance.choice((b"\0", b"\1", b"\2", b"\1\0\0\0", b"\1\0\0\1"))
        case Command.SET_OUTPUT_GPIO_THRESH:
            return bytes((chance.randrange(5), chance.randrange(256)))
    return b""


def fix(command: int, data: bytes) -> bytes:
    """Return data whose effect the model of an engine knows, in place of random data."""
    if command in LOADS and data not in (*GOOD_MODELS, *BAD_MODELS):
        return BAD_MODELS[0]
    if command == Command.START_ACQUIRE_SET_I2C and len(data) in (3, 4):
        return b""
    if command == Command.START_ACQUIRE_STREAM and len(data) <= 4:
        return bytes(5)
    return data


def engine_step(
    name: str, carry_out: Callable[[], Awaitable[Answer]], command: int, tensor: int, data: bytes
) -> Step:
    """A command that an engine carries out as it comes."""

    def predict(engine: ExpectedEngine) -> tuple[Status, bytes | None]:
        if command & 0x80:
            return engine.set(command, tensor, data), b""
        return engine.get(command, tensor)

    return Step(
        f"{name} 0x{command:02x} tensor {tensor} {len(data)} bytes",
        carry_out,
        predict,
        lambda engine, data: engine.takes(command, data),
    )


# USB.


def _check_stall(failure: TransferFailed) -> None:
    assert failure.status is TransferStatus.STALL


class UsbWire:
    """A host that speaks the AI server's protocol, in a framing of its choice for each command."""

    def __init__(self, host: InProcessHost) -> None:
        self.host = host

    def step(self, chance: random.Random) -> Step:
        command, engine, tensor, data = command_of(chance)
        framing = chance.choice(("early", "classic", "design"))
        if framing == "design" and chance.random() < 0.05:
            command = chance.choice((0x100, 0x101, 0x180, 0x184, 0x8000_0001, 0xFFFF_FFFF))
        if framing == "early":
            engine = tensor = 0
        data = fix(command, data) if command & 0x80 else b""
        packet = {
            "early": bytes((command & 0xFF,)),
            "classic": bytes((command & 0xFF, engine, tensor)),
            "design": struct.pack("<3I", command, engine, tensor),
        }[framing]
        is_design = framing == "design"

        def carry_out() -> Awaitable[Answer]:
            return self._command(command, packet, data, is_design=is_design)

        if engine:
            return Step(f"usb {framing} engine {engine}", carry_out, lambda _: (Status.ERROR_BAD_CMD, b""))
        return engine_step(f"usb {framing}", carry_out, command, tensor, data)

    async def _command(self, command: int, packet: bytes, data: bytes, *, is_design: bool) -> Answer:
        host = self.host
        await host.write(packet)
        if command & 0x80:
            await host.write(data, zero_packet=True)
            if is_design:
                return Status(int.from_bytes(await host.read(512), "little")), b""
            return (None if await self._halted() else Status.OKAY), b""
        if is_design:
            status = Status(int.from_bytes(await host.read(512), "little"))
            return status, b"" if status else await host.read(1 << 16)
        try:
            return Status.OKAY, await host.read(1 << 16)
        except TransferFailed as failure:
            _check_stall(failure)
            await self._clear()
            return None, b""

    async def _halted(self) -> bool:
        """Whether the SET failed, which stalls what follows."""
        try:
            await self.host.write(b"\x55\0\0")
            await self.host.read(512)
        except TransferFailed as failure:
            _check_stall(failure)
            await self._clear()
            return True
        return False

    async def _clear(self) -> None:
        await self.host.clear_halt(ENDPOINT_OUT)
        await self.host.clear_halt(ENDPOINT_IN)


class LocalWire:
    """A task of the xcore with a channel to an engine."""

    def __init__(self, device: Device, engine: int = 0, *, reads_only: bool = False) -> None:
        self._c = device.local[engine]
        self._reads_only = reads_only

    def step(self, chance: random.Random) -> Step:
        if self._reads_only:
            command = chance.choice([each for each in GETS if each not in UNKNOWN_OF_IOSERVER])
            tensor, data = chance.choice((0, 0, 1, 5)), b""
        else:
            command, _, tensor, data = command_of(chance)
            data = fix(command, data) if command & 0x80 else b""

        async def carry_out() -> Answer:
            if command & 0x80:
                return await set_command(self._c, command, tensor, data), b""
            return await get_command(self._c, command, tensor)

        return engine_step("local", carry_out, command, tensor, data)


UNKNOWN_OF_IOSERVER: Final = (
    *(Command.GET_SPEC, Command.GET_MEMORY, Command.GET_TENSORS, Command.GET_OPERATORS),
    *(Command.GET_TIMINGS, Command.GET_PROFILE, Command.GET_TIMING_BANDS),
)
"""What a model's facts are needed for: the ioserver's models are not those of `facts_of`."""


# SPI.


@dataclass
class ExpectedSpi:
    """An engine, and what its SPI port shows of it."""

    engine: ExpectedEngine
    errors: int = 0
    output: bytes = b""
    timings: bytes = b""
    bands: bytes = b""
    debug_log: bytes = b""
    spec: bytes = b""
    loads: int = 0
    set: int | None = None
    """The command of the set in progress."""
    data: bytes = b""

    def copy(self) -> "ExpectedSpi":
        """Return another of the same state."""
        return replace(self, engine=self.engine.copy())

    def follow(self) -> None:
        """Take what was done to the engine: a model that was set drops the results."""
        engine = self.engine
        if engine.loads != self.loads:
            self.loads = engine.loads
            self.output = self.timings = b""
        sensor = struct.pack("<I", len(engine.frame or b""))
        self.spec = engine.spec + sensor
        self.bands = engine.timing_bands

    def read(self, command: int, count: int) -> bytes:
        if not count:
            return b""
        if command == Command.GET_STATUS:
            shown, self.errors = self.errors, 0
            return struct.pack("<I", shown)[:count].ljust(count, b"\0")
        data = {
            0x05: self.output,
            0x08: self.spec,
            0x09: self.timings,
            0x1A: self.bands,
            0x0F: self.debug_log,
            0x10: bytes.fromhex("78563412"),
            0x14: b"",
        }[command]
        return data[:count].ljust(count, b"\0")

    def refuse(self, reason: str) -> None:
        self.engine.write_log(f"SPI: {reason}")
        self.debug_log = self.engine.log_bytes
        self.errors |= Status.ERROR_BAD_CMD

    def _note(self, status: Status) -> Status:
        if status:
            self.errors |= status
            self.debug_log = self.engine.log_bytes
        return status

    def abandon(self, command: int | None) -> None:
        """Another write ends a set, unless it goes on with it."""
        if self.set is None or command == self.set:
            return
        if self.set != Command.SET_SERVER:
            name = Command(self.set).name
            self.engine.write_log(f"{name}: the host gave up in the middle of the data")
        self.set, self.data = None, b""

    def _refuse_write(self, reason: str, command: int | None) -> None:
        """Refuse at the port, before the engine hears that a set is given up."""
        self.refuse(reason)
        self.abandon(command)
        self.debug_log = self.engine.log_bytes

    def write(self, command: int, block: bytes) -> None:
        if len(block) > BLOCK:
            name = Command(command).name
            self._refuse_write(f"{name} refused: {len(block)} bytes, a block has at most {BLOCK}", None)
        elif len(block) == BLOCK:
            self.abandon(command)
            self.set, self.data = command, self.data + block
        elif command == Command.SET_SERVER:
            self._refuse_write("SET_SERVER refused: the board has no flash", None)
        else:
            self.abandon(command)
            data, self.set, self.data = self.data + block, None, b""
            self._note(self.engine.set(command, 0, data))
            self.follow()

    def infer(self) -> None:
        self.abandon(Command.START_INFER)
        if not self._note(self.engine.set(Command.START_INFER, 0, b"")):
            self.output, self.timings = self.engine.outputs[0], self.engine.timings

    def acquire(self, block: bytes) -> None:
        if len(block) > BLOCK:
            reason = f"START_ACQUIRE_SINGLE refused: {len(block)} bytes, a block has at most {BLOCK}"
            self._refuse_write(reason, None)
            return
        self.abandon(Command.START_ACQUIRE_SINGLE)
        region = block if any(block[12:]) else block[:12]
        region = region if any(region) else b""
        if not self._note(self.engine.set(Command.START_ACQUIRE_SINGLE, 0, region)):
            self.output = self.engine.frame or b""


Transaction = tuple[bytes, Callable[[ExpectedSpi], bytes | None]]
"""What a master sends, and what it does; that returns the answer from byte 3 on, None for silence."""


def spi_transactions(chance: random.Random, in_set: int | None) -> list[Transaction]:
    """One transaction, or a few of one set; `in_set` is the command of the set in progress."""
    dice = chance.random()
    if dice < 0.4:
        command = chance.choice(SPI_READS)
        count = chance.choice((0, 1, 3, 4, 10, 24, 28, 64, 100, 2048, 2100))
        return [(bytes((command,)) + bytes(2 + count), lambda spi: spi.read(command, count))]
    if dice < 0.45:
        command = chance.choice((*SPI_SILENT, *SPI_REFUSED))
        mosi = bytes((command,)) + bytes(chance.choice((0, 1, 5, 600)))
        if command in SPI_SILENT:
            return [(mosi, lambda _: None)]
        return [(mosi, lambda spi: spi.refuse(f"command 0x{command:02x} refused: SPI has no such command"))]
    if dice < 0.6:
        return [(b"\x84" + bytes(chance.choice((0, 0, 3, 512, 700))), ExpectedSpi.infer)]
    if dice < 0.68:
        block = chance.choice((b"", bytes(12), bytes(20), b"\1" + bytes(11), bytes(30) + b"\1", bytes(600)))
        return [(b"\x8c" + block, lambda spi: spi.acquire(block))]
    return _set_transactions(chance, in_set)


def block_of(command: int, block: bytes) -> Transaction:
    """A write of one block."""
    return bytes((command,)) + block, lambda spi: spi.write(command, block)


def _set_transactions(chance: random.Random, in_set: int | None) -> list[Transaction]:
    command = in_set
    if command is None or chance.random() < 0.3:
        command = chance.choice((0x83, 0x83, 0x83, 0x86, 0x87, 0x04))
    data = bytes(chance.choice(LENGTHS)) if command == Command.SET_SERVER else data_of(chance, command)
    first: list[Transaction] = []
    stop = len(data) // BLOCK + 1
    if command in LOADS:
        # From its beginning, since the model of an engine knows what comes of a few files only.
        if command == in_set:
            first = [block_of(command, bytes(BLOCK + 1))]
        if chance.random() < 0.15:
            stop = chance.randrange(3)
    elif chance.random() < 0.1:
        return [block_of(command, bytes(BLOCK + chance.choice((1, 100))))]
    elif chance.random() < 0.2:
        stop = 1
    places = range(0, len(data) + 1, BLOCK)[:stop]
    return [*first, *(block_of(command, data[start : start + BLOCK]) for start in places)]


# ioserver.

IO_MODELS: Final = (DIGITS, networks.two_input_add_network(1024), networks.summing_network())
IO_SHAPES: Final = (((64,), (10,)), ((1024, 1024), (1024,)), ((16,), (16,)))


class IoserverWire:
    """A host that speaks ioserver, and the engines of its models."""

    def __init__(self, host: InProcessHost) -> None:
        self._host = host
        self.summing = SummingRun()
        self.engines: list[ExpectedEngine] = []
        for model, (inputs, outputs) in zip(IO_MODELS, IO_SHAPES, strict=True):
            engine = ExpectedEngine({}, run=self.summing if model == IO_MODELS[2] else interpreted)
            if note := estimate_note(
                estimate_times(DeviceModel(parameters=Memory.EXTERNAL), read_model(model))
            ):
                engine.write_log(note.rstrip("\n"))
            engine.model, engine.loaded = model, ModelFacts(inputs, outputs)
            engine.inputs, engine.outputs = [*map(bytes, inputs)], [*map(bytes, outputs)]
            self.engines.append(engine)

    async def transact(self, chance: random.Random) -> str:
        """One command; empty where all is as predicted."""
        model, tensor = chance.choice((0, 0, 1, 1, 2, 2, 3, 255)), chance.choice((0, 0, 0, 0, 1, 2, 255))
        number = model if model < len(self.engines) else 0
        engine = self.engines[number]
        match chance.choice("wwwwiiioooorxu"):
            case "w":
                return await self._write(chance, model, tensor, number)
            case "i":
                engine.set(Command.START_INFER, 0, b"")
                await self._host.write(bytes((1, model, tensor)))
                await self._host.write(b"")
                return await self._ended("INVOKE", fails=False)
            case "o":
                return await self._read(model, tensor, engine)
            case "r":
                if number == 2:
                    self.summing.reset()
                await self._host.write(bytes((7, model, tensor)))
                await self._host.write(b"")
                return ""
            case "x":
                self.summing.reset()
                await self._host.write(b"\x08\0\0")
                return ""
        odd = chance.choice((b"", b"\1", b"\1\0", b"\1\0\0\0", b"\x63\0\0", b"\0\0\0", bytes(512)))
        await self._host.write(odd)
        return ""

    async def _write(self, chance: random.Random, model: int, tensor: int, number: int) -> str:
        engine, sizes = self.engines[number], IO_SHAPES[number][0]
        status, _ = engine.get(Command.GET_INPUT_TENSOR_LENGTH, tensor)
        size = sizes[tensor] if tensor < len(sizes) else 64
        if number == 2:
            data = struct.pack("<4f", *(chance.randrange(-100, 100) for _ in range(4)))
        else:
            data = bytes(chance.randrange(60) for _ in range(8)) * (size // 8)
        length = size if chance.random() < 0.8 else chance.choice(LENGTHS)
        data = data[:length].ljust(length, b"\7")
        fails = bool(status) or not size <= length <= size + -size % 4
        if not fails:
            engine.set(Command.SET_INPUT_TENSOR, tensor, data)
        await self._host.write(bytes((3, model, tensor)))
        try:
            await self._host.write(data, zero_packet=True)
        except TransferFailed as failure:
            _check_stall(failure)
            await self._clear()
            return "" if fails else f"ioserver: {length} bytes to input {tensor} of {model} stalled"
        return await self._ended(f"{length} bytes to input {tensor} of {model}", fails=fails)

    async def _read(self, model: int, tensor: int, engine: ExpectedEngine) -> str:
        status, data = engine.get(Command.GET_OUTPUT_TENSOR, tensor)
        assert data is not None
        await self._host.write(bytes((2, model, tensor)))
        try:
            got = await self._host.read(1 << 16)
        except TransferFailed as failure:
            _check_stall(failure)
            await self._clear()
            return "" if status else f"ioserver: output {tensor} of {model} stalled"
        wanted = data.ljust(len(data) + -len(data) % 4, b"\0")
        return "" if not status and got == wanted else f"ioserver: {got!r} in place of {status!r} {wanted!r}"

    async def _ended(self, what: str, *, fails: bool) -> str:
        """Send a packet that means nothing, which a halt stalls."""
        halted = False
        try:
            await self._host.write(b"\x63\0\0")
        except TransferFailed as failure:
            _check_stall(failure)
            halted = True
            await self._clear()
        return "" if halted == fails else f"ioserver: {what}: halted {halted}, predicted {fails}"

    async def _clear(self) -> None:
        await self._host.clear_halt(ENDPOINT_IN)
        await self._host.clear_halt(ENDPOINT_OUT)


# All of them.


@dataclass
class Machine:
    """Both devices, their wires, and the states that they may be in."""

    states: list[ExpectedSpi]
    """Of the first device: more than one where the order of commands at once does not show yet."""
    usb: UsbWire
    local: LocalWire
    ioserver: IoserverWire
    io_locals: list[LocalWire]
    device: Device
    counts: Counter[str] = field(default_factory=Counter)
    most_states: int = 1
    recent: deque[str] = field(default_factory=lambda: deque(maxlen=RECORDED))

    async def turn(self, chance: random.Random) -> str:
        """A few commands, on one wire or on several at once; empty where all is as predicted."""
        match chance.choice("uulssiaarreh"):
            case "u":
                return await self._together([self.usb.step(chance)])
            case "l":
                return await self._together([self.local.step(chance)])
            case "r":
                return await self._together([self.usb.step(chance), self.local.step(chance)])
            case "s":
                return await self._transact(spi_transactions(chance, self.in_set))
            case "i":
                return await self._ioserver(chance)
            case "a":
                return await self._io_local(chance)
            case "h":
                return await self._held(chance)
        return await self._everywhere(chance)

    @property
    def in_set(self) -> int | None:
        """The command of a set over SPI that holds the engine, or waits at the port."""
        return self.states[0].set

    async def _free_engine(self) -> str:
        """End what the master has begun, with a HELLO that ends nothing and a START_INFER that does."""
        if self.in_set is None:
            return ""
        return await self._transact([(b"\x55", lambda _: None), (b"\x84", ExpectedSpi.infer)])

    async def _transact(self, transactions: Sequence[Transaction]) -> str:
        for mosi, effect in transactions:
            miso = await self._bus.transfer(mosi)
            await wait_all_tasks_blocked()
            fault = self._judge(mosi, miso, effect)
            self._record(f"spi 0x{mosi[0]:02x} {len(mosi) - 1} bytes")
            if fault:
                return fault
        return ""

    @property
    def _bus(self) -> SpiBus:
        assert self.device.spi is not None
        return self.device.spi

    def _judge(self, mosi: bytes, miso: bytes, effect: Callable[[ExpectedSpi], bytes | None]) -> str:
        """Keep the states in which a master gets this answer."""

        def carry_out(state: ExpectedSpi) -> str:
            answer = effect(state)
            wanted = bytes(len(mosi)) if answer is None else bytes(3) + answer
            return "" if miso == wanted else f"spi 0x{mosi[0]:02x}: {miso!r} in place of {wanted!r}"

        return self._keep([carry_out])

    def _keep(self, ways: Sequence[Callable[[ExpectedSpi], str]]) -> str:
        """Keep the states that follow from those of before in one of these ways; why not, where none does."""
        found: list[ExpectedSpi] = []
        faults = []
        for state in self.states:
            for way in ways:
                after = state.copy()
                fault = way(after)
                after.follow()
                fault = fault or self._difference(after.engine)
                if fault:
                    faults.append(fault)
                elif after not in found:
                    found.append(after)
        self.states = found
        self.most_states = max(self.most_states, len(found))
        return "" if found else " or ".join(faults)

    def _difference(self, engine: ExpectedEngine) -> str:
        """Compare what shows outside of commands: GPIO levels and the log."""
        real = self.device.engines[0]
        if real.gpio.levels != engine.levels:
            return f"levels {real.gpio.levels} in place of {engine.levels}"
        if bytes(real.log) != engine.log_bytes:
            return f"the log has {bytes(real.log)!r} in place of {engine.log_bytes!r}"
        return ""

    async def _together(self, steps: Sequence[Step]) -> str:
        """Carry out steps at once; some order of them must explain the answers."""
        fault = await self._free_engine()
        if fault:
            return fault
        answers: dict[str, Answer] = {}

        async def carry_out(step: Step) -> None:
            answers[step.name] = await step.carry_out()

        async with trio.open_nursery() as nursery:
            for step in steps:
                nursery.start_soon(carry_out, step)
        await wait_all_tasks_blocked()
        for step in steps:
            self._record(step.name)

        def in_order(order: Sequence[Step]) -> Callable[[ExpectedSpi], str]:
            def way(state: ExpectedSpi) -> str:
                return next(
                    filter(None, (agrees(step, state.engine, answers[step.name]) for step in order)), ""
                )

            return way

        return self._keep([in_order(order) for order in itertools.permutations(steps)])

    async def _ioserver(self, chance: random.Random) -> str:
        fault = await self.ioserver.transact(chance)
        await wait_all_tasks_blocked()
        self._record("ioserver")
        return fault

    async def _io_local(self, chance: random.Random) -> str:
        number = chance.randrange(len(self.io_locals))
        step = self.io_locals[number].step(chance)
        answer = await step.carry_out()
        self._record(f"ioserver, {step.name}")
        return agrees(step, self.ioserver.engines[number], answer)

    async def _held(self, chance: random.Random) -> str:
        """A command over USB while a set over SPI has the engine: it comes after it, however that ends."""
        full, last = bytes(BLOCK), bytes(BLOCK + 1) if chance.random() < 0.5 else b""
        fault = await self._free_engine() or await self._transact([block_of(0x83, full)])
        if fault:
            return fault
        step = self.usb.step(chance)
        answer: list[Answer] = []

        async def carry_out() -> None:
            answer.append(await step.carry_out())

        async with trio.open_nursery() as nursery:
            nursery.start_soon(carry_out)
            await wait_all_tasks_blocked()
            mosi, effect = block_of(0x83, last)
            miso = await self._bus.transfer(mosi)
        await wait_all_tasks_blocked()
        self._record(f"held {step.name}")
        if any(miso):
            return f"spi: {miso!r} in a write"

        def log_before(state: ExpectedSpi) -> str:
            effect(state)
            return agrees(step, state.engine, answer[0])

        def log_after(state: ExpectedSpi) -> str:
            # The port asks for the log when the engine is free again: the other command may come first.
            fault = log_before(state)
            state.debug_log = state.engine.log_bytes
            return fault

        return self._keep([log_before, log_after])

    async def _everywhere(self, chance: random.Random) -> str:
        """A command on each wire at the same time; the devices are independent of each other."""
        faults: list[str] = []

        async def second() -> None:
            faults.append(await self._ioserver(chance))

        steps = [self.usb.step(chance), self.local.step(chance)]
        async with trio.open_nursery() as nursery:
            nursery.start_soon(second)
            faults.append(await self._together(steps))
        return "".join(faults)

    def _record(self, name: str) -> None:
        self.counts[name.split(" 0x", maxsplit=1)[0].split(" engine", maxsplit=1)[0]] += 1
        self.recent.append(name)


async def _machine(device: Device, second: Device) -> Machine:
    engine = ExpectedEngine(
        {
            (command, model): await facts_of(command, model)
            for command in LOADS
            for model in (*GOOD_MODELS, *BAD_MODELS)
        },
        no_memory=(await get_command(device.local[0], Command.GET_MEMORY))[1],
        frame=bytes(64),
    )
    hosts = [InProcessHost(each.usb) for each in (device, second)]
    for host in hosts:
        await host.plug_in()
    for number, model in enumerate(IO_MODELS):
        await second.load_model(model, engine=number, command=Command.SET_MODEL_EXT)
    await wait_all_tasks_blocked()
    locals_ = [LocalWire(second, number, reads_only=True) for number in range(len(IO_MODELS))]
    state = ExpectedSpi(engine)
    state.follow()
    return Machine([state], UsbWire(hosts[0]), LocalWire(device), IoserverWire(hosts[1]), locals_, device)


async def _run(size: int, seed: int) -> tuple[Counter[str], int]:
    board = Board(sensor=SensorSpec(tile=0, source="pattern:bars", encoding="samples", width=64, height=1))
    engines = tuple(EngineSpec(tile=number % 2, arena_bytes=200 * 1024) for number in range(len(IO_MODELS)))
    second_board = Board(engines=engines, protocol=UsbProtocol.IOSERVER)
    async with (
        open_device(board, runner=inline, source=NumberedFrames()) as device,
        open_device(second_board, runner=inline) as second,
    ):
        machine = await _machine(device, second)
        turn = 0
        while machine.counts.total() < size:
            with trio.fail_after(PATIENCE):
                fault = await machine.turn(random.Random(f"{seed}:{turn}"))
            shown = fault.replace("\\x00", "")
            assert not fault, f"turn {turn} of seed {seed}, after {'; '.join(machine.recent)}: {shown}"
            turn += 1
    return machine.counts, machine.most_states


PATIENCE: Final = 60.0
"""Seconds of a turn, on a busy machine."""


def run(size: int, seed: int) -> Figures:
    """Carry out so many commands."""
    logger, silence = logging.getLogger(), logging.NullHandler()
    logger.addHandler(silence)
    try:
        counts, states = trio.run(_run, size, seed)
    finally:
        logger.removeHandler(silence)
    return {"commands": counts.total(), "states at once": states, "by wire": dict(sorted(counts.items()))}


CHECK: Final = Check(
    "commands", "commands on all wires at once, every answer predicted", "commands", 200_000, 1500, 8, run
)
