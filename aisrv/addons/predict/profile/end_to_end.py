"""Predicted times of a host's commands: upload of a model, its input, the inference, its output.

What is on the wire, what the device's tasks and channels take, and the inference, apart from each other. The
links are on one tile, the engine is on the other, no more than five cores of a tile run, and the framing is
the classic one. Figures and their sources: `aisrv.xcore.timed.device_costs`.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from aisrv.addons.predict.profile.errors import ProfileError
from aisrv.addons.predict.profile.model_profile import ModelProfile
from aisrv.inference.timings import Basis
from aisrv.model import Model
from aisrv.protocol.commands import Command
from aisrv.xcore.timed.device_costs import (
    ARRAY_ROUTES,
    ISSUE_SLOTS,
    LOAD_TICKS,
    NORMAL_WORD_ROUTES,
    NORMAL_WORD_SLOTS,
    ROUTE_CLOCKS,
    STATUS_ROUTES,
    STATUS_SLOTS,
    TICK_HZ,
    TOKEN_SLOTS,
    USB_TURN_TICKS,
    spi_byte_ticks,
    spi_transaction_ticks,
    usb_transaction_ticks,
    word_run_slots,
)

PACKET: Final = 512
"""Bytes of a USB packet, and data bytes of a block over SPI."""
POLL_BYTES: Final = 7
"""GET_STATUS over SPI: the command, two dummy bytes, a word."""
NONE: Final = Fraction(0)
SPI_HEADER: Final = 3
"""Bytes of a read over SPI before its data."""


@dataclass(frozen=True, slots=True)
class Workload:
    """What an inference moves and takes: bytes of each tensor, and ticks of 10 ns."""

    inputs: tuple[int, ...]
    """Bytes of each input."""
    outputs: tuple[int, ...]
    """Bytes of each output."""
    operators: int
    """Operators of the file, each of which has a word of GET_TIMINGS."""
    inference: Fraction
    """Ticks of an inference."""
    model: int = 0
    """Bytes of the file."""
    core_mhz: Fraction = Fraction(600)
    """Clock of the cores."""


class Scale(NamedTuple):
    """Factors of what is an estimate: a packet's turn, an open route, the load of a model."""

    turn: int = 1
    route: int = 1
    load: int = 1


LIKELY: Final = Scale()
LEAST: Final = Scale(0, 0, 0)
"""The bus and the copies alone."""
MOST: Final = Scale(2, 2, 2)


@dataclass(frozen=True, slots=True)
class CommandTime:
    """One command, in ticks of 10 ns. Over SPI the device works while the host polls: it is in `link`."""

    command: Command
    nbytes: int
    """Data bytes."""
    link: Fraction
    """Ticks on the wire, with the turns of USB packets and the polls of SPI."""
    device: Fraction
    """Ticks of tasks and channels; 0 over SPI."""
    inference: Fraction
    """Ticks of the inference; 0 over SPI, and of all other commands."""

    @property
    def ticks(self) -> Fraction:
        return self.link + self.device + self.inference


@dataclass(frozen=True, slots=True)
class Costs:
    """Costs of the device's part, in ticks, by what is an estimate in them."""

    core_mhz: Fraction
    scale: Scale = LIKELY

    def ticks(self, slots: int, routes: int = 0) -> Fraction:
        """Ticks of issue slots and of routes to the other tile."""
        clocks = ISSUE_SLOTS * slots + ROUTE_CLOCKS * self.scale.route * routes
        return Fraction(clocks * TICK_HZ // 1_000_000) / self.core_mhz

    def words(self, count: int) -> Fraction:
        """Normal words."""
        return self.ticks(NORMAL_WORD_SLOTS * count, NORMAL_WORD_ROUTES * count)

    def array(self, nbytes: int) -> Fraction:
        return self.ticks(TOKEN_SLOTS + word_run_slots(nbytes), ARRAY_ROUTES)

    def status(self) -> Fraction:
        return self.ticks(STATUS_SLOTS, STATUS_ROUTES)

    def set(self, nbytes: int) -> Fraction:
        """A SET: command and tensor, array, status."""
        return self.words(2) + self.array(nbytes) + self.status()

    def get(self, nbytes: int) -> Fraction:
        """A GET: command and tensor, status, array."""
        return self.words(3) + self.array(nbytes)

    def load(self, operators: int) -> Fraction:
        return Fraction(LOAD_TICKS * self.scale.load * operators)


Link = Callable[[Workload, Scale], Iterator[CommandTime]]
"""Yields the commands of one inference after the upload of its model, in order."""


def usb(work: Workload, scale: Scale = LIKELY) -> Iterator[CommandTime]:
    """Commands over USB high speed. A host that is always ready never keeps the bus waiting."""
    costs = Costs(work.core_mhz, scale)
    turn = USB_TURN_TICKS * scale.turn

    def packets(nbytes: int) -> Fraction:
        """Transactions of a transfer: packets of 512 bytes, and a shorter one, which may be empty."""
        whole, rest = divmod(nbytes, PACKET)
        return Fraction(whole * (usb_transaction_ticks(PACKET) + turn) + usb_transaction_ticks(rest) + turn)

    def command(
        code: Command, nbytes: int, device: Fraction, inference: Fraction = Fraction(0)
    ) -> CommandTime:
        link = usb_transaction_ticks(3) + turn + packets(nbytes)
        return CommandTime(code, nbytes, link, device, inference)

    yield command(Command.SET_MODEL_ARENA, work.model, costs.set(work.model) + costs.load(work.operators))
    for nbytes in work.inputs:
        yield command(Command.SET_INPUT_TENSOR, nbytes, costs.set(nbytes))
    yield command(Command.START_INFER, 0, costs.set(0), work.inference)
    for nbytes in work.outputs:
        yield command(Command.GET_OUTPUT_TENSOR, nbytes, costs.get(nbytes))


def spi(clock_hz: int) -> Link:
    """Commands over SPI at a clock, by a host that reads the status back to back until BUSY is clear.

    The port belongs to the first input and the first output.
    """
    byte = spi_byte_ticks(clock_hz)
    poll = spi_transaction_ticks(POLL_BYTES, clock_hz)

    def polled(busy: Fraction) -> Fraction:
        """Ticks until the host has read a status that is not BUSY, `busy` ticks after chip select rose.

        A status is sampled with its third byte.
        """
        first = 30 + 3 * byte
        return poll * (1 + max(0, math.ceil((busy - first) / poll)))

    def write(code: Command, nbytes: int, costs: Costs, more: Fraction = NONE) -> CommandTime:
        """A poll, blocks with their polls, and the shorter block that ends them, `more` ticks after it."""
        blocks, rest = divmod(nbytes, PACKET)
        begin = costs.words(2) + costs.ticks(0, 1)
        block = costs.ticks(TOKEN_SLOTS + word_run_slots(PACKET))
        end = costs.ticks(2 * TOKEN_SLOTS + word_run_slots(rest), ARRAY_ROUTES - 1) + costs.status() + more
        link = poll
        for number in range(min(blocks, 2)):
            times = 1 if number == 0 else blocks - 1
            busy = block + begin if number == 0 else block
            link += times * (spi_transaction_ticks(1 + PACKET, clock_hz) + polled(busy))
        link += spi_transaction_ticks(1 + rest, clock_hz) + polled(end if blocks else end + begin)
        return CommandTime(code, nbytes, link, NONE, NONE)

    def commands(work: Workload, scale: Scale = LIKELY) -> Iterator[CommandTime]:
        costs = Costs(work.core_mhz, scale)
        source, output = work.inputs[0], work.outputs[0]
        yield write(Command.SET_MODEL_ARENA, work.model, costs, costs.load(work.operators))
        yield write(Command.SET_INPUT_TENSOR, source, costs)
        busy = costs.ticks(TOKEN_SLOTS) + costs.set(0) + costs.get(output) + costs.get(4 * work.operators)
        infer = spi_transaction_ticks(1, clock_hz) + polled(busy + work.inference)
        yield CommandTime(Command.START_INFER, 0, infer, NONE, NONE)
        read = spi_transaction_ticks(SPI_HEADER + (output + 3) // 4 * 4, clock_hz)
        yield CommandTime(Command.GET_OUTPUT_TENSOR, output, read, NONE, NONE)

    return commands


@dataclass(frozen=True, slots=True)
class Row:
    """A command with its band, in ticks of 10 ns; `low` and `high` are of the sum."""

    time: CommandTime
    host: Fraction
    """Ticks of the host before the next command, which `time` does not have."""
    low: Fraction
    high: Fraction
    basis: Basis

    @property
    def ticks(self) -> Fraction:
        return self.time.ticks + self.host


@dataclass(frozen=True, slots=True)
class Stream:
    """A camera that sends frames to the engine, which takes the latest as soon as it is free."""

    fps: Fraction
    """Frames of the camera in a second."""
    frames: int
    """Frames that were inferred."""
    dropped: int
    """Frames that passed meanwhile."""
    rate: Fraction
    """Inferences in a second, in the long run."""


@dataclass(frozen=True, slots=True)
class EndToEnd:
    """Commands of a host: the upload, then those of each inference."""

    link: str
    upload: Row
    rows: tuple[Row, ...]
    stream: Stream | None = None

    @property
    def ticks(self) -> int:
        """Ticks of 10 ns of one inference with its input and output, rounded up."""
        return math.ceil(sum(row.ticks for row in self.rows))

    @property
    def low(self) -> int:
        return math.floor(sum(row.low for row in self.rows))

    @property
    def high(self) -> int:
        return math.ceil(sum(row.high for row in self.rows))

    @property
    def rate(self) -> float:
        """Inferences in a second, each begun when the one before has been read."""
        return TICK_HZ / self.ticks

    @property
    def pipelined_rate(self) -> float:
        """Inferences in a second where the next commands are in flight, which hides the host's own time."""
        return float(TICK_HZ / sum(row.time.ticks for row in self.rows))


def inferred_frames(count: int, cycle: Fraction, fetch: Fraction, period: Fraction) -> Iterator[int]:
    """Yield the number of each frame that an engine infers, in order: the latest when it asks, or the next.

    `cycle` is a fetch and an inference, `fetch` the fetch alone, `period` that of the frames, all in ticks.
    """
    number = 0
    take = Fraction(0)
    for _ in range(count):
        ask = take + fetch
        number = max(number + 1, math.ceil(ask / period))
        yield number
        take = max(ask + cycle - fetch, Fraction(math.floor(number * period)))


def predict(
    profile: ModelProfile, link: Link, name: str, host_us: float = 0, fps: float | None = None
) -> EndToEnd:
    """Predict the commands of a model that was profiled.

    `host_us` is what a host takes for a command, in microseconds, `fps` the rate of a camera in 1/s. Raises
    ProfileError for a model without inputs or outputs.
    """
    model = profile.model
    if model is None or not model.inputs or not model.outputs:
        raise ProfileError(f"{profile.name} has no inputs or no outputs: there is nothing to send")
    works = [
        _workload(profile, model, ticks)
        for ticks in (profile.total.ticks, profile.total.low, profile.total.high)
    ]
    times, least, most = (
        list(link(work, scale)) for work, scale in zip(works, (LIKELY, LEAST, MOST), strict=True)
    )
    host = Fraction(host_us) * TICK_HZ / 1_000_000
    basis = max(profile.basis_shares, key=profile.basis_shares.__getitem__)
    upload, *rows = [
        Row(time, host, low.ticks + host, high.ticks + host, _basis(time.command, basis))
        for time, low, high in zip(times, least, most, strict=True)
    ]
    stream = None if fps is None else _stream(works[0], Fraction(fps))
    return EndToEnd(name, upload, tuple(rows), stream)


def _basis(command: Command, inference: Basis) -> Basis:
    """The basis of the largest part: estimates in all that crosses a link."""
    return inference if command is Command.START_INFER else Basis.ESTIMATE


def _workload(profile: ModelProfile, model: Model, ticks: int) -> Workload:
    return Workload(
        tuple(model.tensors[index].nbytes for index in model.inputs),
        tuple(model.tensors[index].nbytes for index in model.outputs),
        len(profile.times),
        Fraction(ticks * TICK_HZ) / (Fraction(profile.total.tick_mhz) * 1_000_000),
        profile.memory.model,
        Fraction(profile.configuration.device.core_mhz),
    )


def _stream(work: Workload, fps: Fraction, frames: int = 1000) -> Stream:
    fetch = Costs(work.core_mhz).array(work.inputs[0])
    cycle, period = fetch + work.inference, TICK_HZ / fps
    *_, last = inferred_frames(frames, cycle, fetch, period)
    return Stream(fps, frames, last - frames, min(fps, TICK_HZ / cycle))
