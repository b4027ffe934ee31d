"""Channel ends as their rules have them, one token at a time: what the substrate is compared with.

Written from the rules alone, it knows no runs and no shortcuts. What a core does is a generator. It yields
None where its next token can neither be sent nor taken, and the choices where the rules leave one open: the
order in which ends claim a destination, and which of several events a select takes.
"""

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from aisrv.xcore.traps import TrapKind
from tests.support.oracles.substrate.programs import Program

T = TypeVar("T")

Choices = tuple[Any, ...]
Steps = Generator[Choices | None, Any, T]

CONTROL: Final = 256
"""A control token in a buffer is its number and this; data are less."""
END, PAUSE, NACK = 1, 2, 4
ROOM: Final = 8
NOBODY: Final = -1
"""Stands in a route for the end that nobody has."""


class Trapped(Exception):
    """The core stops here."""

    def __init__(self, kind: TrapKind = TrapKind.ILLEGAL_RESOURCE) -> None:
        super().__init__(kind)
        self.kind = kind


class Abandoned(Exception):
    """The array that a verb takes was given up."""


class Withdrawn(Exception):
    """Cancels the verb that a core is in."""


@dataclass
class End:
    """A channel end; ends are named by their numbers."""

    tile: int
    destination: int | None
    allocated: bool = True
    buffer: list[int] = field(default_factory=list)
    ready_since: int = 0
    """Count of tokens that the node had seen when the buffer got its first one."""
    source: int | None = None
    claims: list[int] = field(default_factory=list)
    route: int | None = None


@dataclass
class Core:
    """Who runs a part of a program."""

    tile: int | None
    """None: it may use the ends of any tile."""
    history: list[Any] = field(default_factory=list)
    """All that its verbs were given, on which they go on."""
    log: list[Any] = field(default_factory=list)
    """What it answered as a server."""


class Model:
    """The ends of a node, and what verbs are made of; `freely` the choices are made outside."""

    def __init__(self, program: Program, *, freely: bool = False) -> None:
        self.freely: Final = freely
        self.ends: Final = [
            End(tile, None if number in program.late else destination, number not in program.late)
            for number, (tile, destination) in enumerate(
                zip(program.tiles, program.destinations, strict=True)
            )
        ]
        self.moved = False
        """Whether anything has changed that others may have waited for."""
        self.is_vague = False
        """Whether a verb trapped after a number of tokens that the rules leave open."""
        self._seen = 0

    def end_of(self, core: Core, number: int) -> End:
        """An end that the core may use."""
        end = self.ends[number]
        if not end.allocated or core.tile not in (None, end.tile):
            raise Trapped
        return end

    def put(self, core: Core, number: int, token: int) -> Steps[None]:
        """Send a token."""
        end = self.end_of(core, number)
        if end.route is None:
            yield from self._open(number, end)
        closes = token in (CONTROL + END, CONTROL + PAUSE)
        if end.route != NOBODY:
            assert end.route is not None
            target = self.ends[end.route]
            if token != CONTROL + PAUSE:
                while len(target.buffer) >= ROOM:
                    yield None
                self._seen += 1
                if not target.buffer:
                    target.ready_since = self._seen
                target.buffer.append(token)
            if closes:
                target.source = target.claims.pop(0) if target.claims else None
        if closes:
            end.route = None
        core.history.append("sent")
        self.moved = True

    def _open(self, number: int, end: End) -> Steps[None]:
        if end.destination is None:
            raise Trapped(TrapKind.LINK_ERROR)
        rivals = sum(other.destination == end.destination for other in self.ends)
        if rivals > 1:
            while (yield ("claims",)) is None:
                """The order is chosen when nothing else can go on."""
        target = None if end.destination == NOBODY else self.ends[end.destination]
        if target is None or not target.allocated:
            end.route = NOBODY
            return
        if target.source is None:
            target.source = number
        else:
            target.claims.append(number)
            self.moved = True
            try:
                while target.source != number:
                    yield None
            except Withdrawn:
                target.claims.remove(number)
                raise
        end.route = end.destination

    def put_data(self, core: Core, number: int, data: bytes) -> Steps[None]:
        """Send data tokens."""
        self.end_of(core, number)
        for byte in data:
            yield from self.put(core, number, byte)

    def see(self, core: Core, number: int) -> Steps[int]:
        """Wait for a token, which stays."""
        end = self.end_of(core, number)
        while not end.buffer:
            yield None
        core.history.append(end.buffer[0])
        return end.buffer[0]

    def take(self, core: Core, number: int, count: int = 1) -> list[int]:
        """Take tokens that are there."""
        buffer = self.ends[number].buffer
        taken, buffer[:count] = buffer[:count], []
        core.history += taken
        self.moved = True
        return taken

    def take_control(self, core: Core, number: int, expected: int | None = None) -> Steps[int]:
        """Take a control token, or just the one that is expected."""
        token = (yield from self.see(core, number)) - CONTROL
        if token < 0 or expected not in (None, token):
            raise Trapped
        self.take(core, number)
        return token

    def take_data(self, core: Core, number: int, count: int) -> Steps[bytes]:
        """Take data: up to four tokens together, more of them one by one."""
        if count > 4:
            taken = b""
            while len(taken) < count:
                if (yield from self.see(core, number)) >= CONTROL:
                    raise Trapped
                taken += bytes(self.take(core, number))
            return taken
        buffer = self.end_of(core, number).buffer
        while max(buffer[:count], default=0) < CONTROL and len(buffer) < count:
            yield None
        if max(buffer[:count], default=0) >= CONTROL:
            raise Trapped
        return bytes(self.take(core, number, count))

    def ready(self, numbers: tuple[int, ...]) -> tuple[int, ...]:
        """The ends among those of a select where a token waits; trap where nobody has one of them."""
        if not all(self.ends[number].allocated for number in numbers):
            raise Trapped
        return tuple(number for number in numbers if self.ends[number].buffer)
