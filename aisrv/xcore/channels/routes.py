"""Routes between channel ends, and the tokens that cross them.

The first token opens a route, END or PAUSE closes it. While one is open its destination belongs to its
source, and other sources wait in the order in which they asked. An end buffers eight tokens. A block of data
is queued in one piece all the same, and the verb that sent it returns once no more than eight of its tokens
are queued: a program sees what single tokens would show it, and a block crosses at the price of a token.
Behavior: "The XCORE substrate", section Tokens and channel ends.
"""

from typing import Final

from aisrv.xcore.channels.end_state import NOBODY, RESOURCE_TYPE
from aisrv.xcore.channels.verb import Steps
from aisrv.xcore.channels.verb_runner import VerbRunner
from aisrv.xcore.core import check_tile
from aisrv.xcore.tokens import LAST_CONTROL, WORD_BYTES, Control, Run
from aisrv.xcore.trace import Tracer
from aisrv.xcore.traps import Trap, TrapKind, check_size

CHANENDS: Final = 32
"""Channel ends of a tile."""

BUFFER_TOKENS: Final = 8

_CLOSING: Final = frozenset((Control.END, Control.PAUSE))
_END: Final = int(Control.END)


class RoutedEnd(VerbRunner):
    """A channel end as others reach it: what it has buffered, and its routes.

    The steps of verbs are here: `output` and `input`, and what takes tokens without waiting for them.
    """

    __slots__ = ()

    @property
    def number(self) -> int:
        """Number among the ends of its tile."""
        return self.resource_id >> 8 & 0xFF

    @property
    def destination(self) -> int | None:
        """Resource id of the end that outputs go to; None where none is set."""
        return self._destination

    @property
    def ready(self) -> bool:
        """Return whether a token or a call waits: what a select asks; an end that was freed traps."""
        if self._freed:
            self._check_usable("select")
        return self._buffer.queued > 0 or self.handed is not None

    @property
    def has_tokens(self) -> bool:
        """Return whether a token is buffered, even one of a later tick."""
        return self._buffer.queued > 0

    def setd(self, destination: "RoutedEnd | int") -> None:
        """Set the `destination` of outputs, by object or resource id; refused while a route is open.

        What can never be a channel end of the node traps with ILLEGAL_RESOURCE: 0, the id of a timer or lock.
        The end itself need not be there yet.
        """
        place = f"setd on {self.name}"
        check_tile(self.tile, place)
        self._check_usable("setd")
        resource_id = destination.resource_id if isinstance(destination, RoutedEnd) else destination
        foreign = isinstance(destination, RoutedEnd) and destination.runtime is not self.runtime
        if foreign or not isinstance(resource_id, int) or not self._may_be_chanend(resource_id):
            reason = f"{place} to {_shown(destination)}, which is not a channel end of this node"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, reason, place)
        if self._route is not None:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place} while its route is open", place)
        self._destination = resource_id

    def join(self, other: "RoutedEnd") -> None:
        """Connect this end and another, of any tile, before they are used."""
        self._destination, other._destination = other.resource_id, self.resource_id

    def free(self) -> None:
        """Give the end back to its tile; tokens buffered, a route open or a verb in progress trap.

        After the end of its node it does nothing.
        """
        if self.runtime.has_ended:
            return
        place = f"freer on {self.name}"
        check_tile(self.tile, place)
        self._check_usable("freer")
        if cause := self._why_not_free():
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place} {cause}", place)
        self._freed = True
        self._destination = None
        self._switch.remove(self)
        self._pool.give_back(self.number)

    def _why_not_free(self) -> str:
        """Return the first reason why the end cannot be freed now; empty where it can."""
        if self._buffer.queued:
            return f"with {count_of_tokens(self._buffer.queued)} buffered"
        if self._source is not None:
            return f"while the route of {self._source.name} to it is open"
        if self._route is None:
            return ""
        return f"while its route to {'nobody' if self._route is NOBODY else self._route.name} is open"

    def _may_be_chanend(self, resource_id: int) -> bool:
        """Return whether this is the id of a channel end that is or may be allocated."""
        tile, number = resource_id >> 16 & 1, resource_id >> 8 & 0xFF
        fits = tile < self.runtime.tiles and number < CHANENDS
        return fits and resource_id == self.runtime.resource_id(tile, RESOURCE_TYPE, number)

    def _withdraw(self) -> None:
        """Undo what a cancelled verb has not finished: its claim on a route, its tokens past the buffer."""
        super()._withdraw()
        target = self._route
        if isinstance(target, RoutedEnd):
            excess = target._buffer.queued - BUFFER_TOKENS
            target._buffer.withdraw_past(BUFFER_TOKENS)
            if self.runtime.tracer is not None and excess > 0:
                self.runtime.tracer.withdrawn(self, excess, self.tick)
        elif target is None and self._destination is not None:
            claimed = self._switch.find(self._destination)
            if claimed is not None:
                claimed._claims = tuple(end for end in claimed._claims if end is not self)

    # Output.

    def output(self, run: Run) -> Steps[None]:
        """Send a run: open the route if need be, wait for room, close the route after END or PAUSE.

        An empty run is not a token: it opens no route.
        """
        closing = False
        if isinstance(run, int):
            if not 0 <= run <= LAST_CONTROL:
                raise Trap(
                    TrapKind.ILLEGAL_RESOURCE, f"control token {run} on {self.name} is not for software"
                )
            closing = run in _CLOSING
        elif not run:
            return
        if self._route is None:
            yield from self._open_route()
        target = self._route
        assert target is not None  # noqa: S101 - for the type checker
        if target is NOBODY:
            if closing:
                self._route = None
            return
        if run != Control.PAUSE:
            self._deliver(target, run)
            while target._buffer.queued > BUFFER_TOKENS:
                yield
        if closing:
            self._close_route(target)

    def _open_route(self) -> Steps[None]:
        if self._destination is None:
            raise Trap(TrapKind.LINK_ERROR, f"output on {self.name}, which has no destination")
        target: RoutedEnd | None = self._switch.find(self._destination)
        if target is None:
            self._route = NOBODY
            return
        if target._source is None:
            target._source = self
        else:
            target._claims = (*target._claims, self)
            while target._source is not self:
                yield
        self._route = target  # type: ignore[assignment]  # fields have the type Self
        if self.runtime.tracer is not None:
            self.runtime.tracer.route_opened(self, target, self.tick)

    def _close_route(self, target: "RoutedEnd") -> None:
        self._route = None
        if self.runtime.tracer is not None:
            self.runtime.tracer.route_closed(self, target, self.tick)
        target._source = None
        if target._claims:
            target._source, *rest = target._claims
            target._claims = tuple(rest)
            self._switch.step(target._source)

    def _deliver(self, target: "RoutedEnd", run: Run) -> None:
        if self.runtime.tracer is not None:
            self.runtime.tracer.output(self, run, self.tick)
        self.crossed += 1
        target._buffer.push(run)
        if target._steps is not None or target._listener is not None:
            target._tokens_arrived()

    def _tokens_arrived(self) -> None:
        """Step the verb or wake the core that waits for tokens."""
        if self._steps is not None:
            self._switch.step(self)
        if self._listener is not None:
            self._listener.fire(self)

    # Input.

    def input(self, count: int) -> Steps[bytes]:
        """Take `count` data tokens; a control token among them traps, of up to four tokens none is taken."""
        if count < 0:
            check_size(count, "tokens to input")
        buffer = self._buffer
        if 0 < count <= WORD_BYTES:
            while not (buffer.queued and (run := buffer.take_run(count))):
                if buffer.control_within(count):
                    found = f"control token {buffer.first_control()}"
                    raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected data on {self.name}, got {found}")
                if buffer.queued >= count:
                    break  # in several runs
                yield
            else:
                self._taken(run, count)
                return run
        pieces = []
        while count:
            if buffer.queued:
                pieces.append(self._take_data(count))
                count -= len(pieces[-1])
            else:
                yield
        return b"".join(pieces)

    def take_control(self, token: int) -> bool:
        """Take that control token where a token waits; anything else traps and stays."""
        buffer = self._buffer
        if not buffer.queued:
            return False
        found = buffer.control
        if found != token:
            got = "data" if found is None else f"control token {found}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected control token {token} on {self.name}, got {got}")
        buffer.take_control()
        self._taken(token, 1)
        return True

    def take_until_control(self, limit: int) -> bytes | int | None:
        """Take what `in_until_control` returns; None where no token waits.

        `limit` is the most tokens.
        """
        buffer = self._buffer
        if not buffer.queued:
            return None
        token = buffer.take_control()
        if token is None:
            return self._take_data(limit)
        self._taken(token, 1)
        return token

    def _take_data(self, limit: int) -> bytes:
        """Take up to `limit` data tokens from the first run."""
        token = self._buffer.control
        if token is not None:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected data on {self.name}, got control token {token}")
        data = self._buffer.take_data(limit)
        self._taken(data, len(data))
        return data

    def _taken(self, run: Run, size: int) -> None:
        """Report what was taken off the buffer, and let the sender go on where that made room."""
        if self.runtime.tracer is not None:
            self.runtime.tracer.input(self, run, self.tick)
        queued = self._buffer.queued
        if queued <= BUFFER_TOKENS < queued + size and self._source is not None:
            self._switch.step(self._source)

    # Shortcuts: a packet that fits the buffer, and those of `handover` and of `ChanEnd.call`, which ask for
    # the peer. Both ends, their routes and their buffers are left as the tokens of the verb would have left
    # them, the same tasks have run on, with the same results, and a tracer is told of the tokens. So a
    # shortcut is taken only where the outcome of all of its tokens is known before the first one goes, and
    # nobody could see them on their way: no third end that claims the route, no token queued that is not
    # looked at. Else it changes nothing, and the tokens cross. Proof by example:
    # tests/xcore/channels/test_chanend_shortcuts.py.

    def packet(self, data: bytes) -> Steps[None]:
        """Send data tokens and END, which close the route; a step of larger verbs."""
        if not self._output_packet_at_once(data):
            yield from self.output(data)
            yield from self.output(_END)

    lone_packet = packet
    """A packet of a handshake, in which each token is by itself: that takes longer in device time."""

    def _output_packet_at_once(self, data: bytes) -> bool:
        """Output data and END over a route that opens and closes within the verb."""
        target = self._route
        if target is None:
            if self._destination is None:
                return False
            target = self._switch.find(self._destination)
            if target is None or target._source is not None:
                return False
        elif target is NOBODY:
            return False
        buffer = target._buffer
        if buffer.queued + len(data) >= BUFFER_TOKENS or target._claims:
            return False
        if self.runtime.tracer is not None:
            self._report_packet(self.runtime.tracer, target, data)
        self._route = target._source = None
        self.crossed += 1
        if data:
            buffer.push(data)
        buffer.push(_END)
        target._tokens_arrived()
        return True

    def _report_packet(self, tracer: Tracer, target: "RoutedEnd", data: bytes) -> None:
        if self._route is None:
            tracer.route_opened(self, target, self.tick)
        if data:
            tracer.output(self, data, self.tick)
        tracer.output(self, _END, self.tick)
        tracer.route_closed(self, target, self.tick)

    def peer_at_rest(self) -> "RoutedEnd | None":
        """Return the end at the other side of a channel; None where tokens may be on their way."""
        if self._destination is None or self._buffer.queued or self._has_route():
            return None
        peer: RoutedEnd | None = self._switch.find(self._destination)
        if peer is None or peer._destination != self.resource_id or peer._has_route():
            return None
        return peer

    def _has_route(self) -> bool:
        """Return whether a route from the end or to it is open."""
        return self._route is not None or self._source is not None


def count_of_tokens(count: int) -> str:
    """Write a number of tokens out."""
    return f"{count} token" if count == 1 else f"{count} tokens"


def _shown(destination: object) -> str:
    """Show what is to be a destination, and may be anything."""
    if isinstance(destination, int):
        return f"0x{destination:08x}"
    return "nothing" if destination is None else repr(destination)
