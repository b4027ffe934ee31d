"""The output side of a channel end: a route to another end, opened by the first token and closed by END.

While a route is open its destination belongs to its source; other sources queue in order. Behavior: "The
XCORE substrate", section Tokens and channel ends.
"""

from typing import TYPE_CHECKING, Final, Protocol

from aisrv.xcore.tokenbuffer import BUFFER_TOKENS, TokenBuffer
from aisrv.xcore.tokens import LAST_CONTROL, Control, Run
from aisrv.xcore.traps import Trap, TrapKind
from aisrv.xcore.verb import Steps

if TYPE_CHECKING:
    from aisrv.xcore.tile import Tile

_CLOSING: Final = frozenset((Control.END, Control.PAUSE))
_END: Final = int(Control.END)


class Listener(Protocol):
    """What a select leaves at each of its resources."""

    def fire(self, resource: object) -> None:
        """Take note that the resource is ready."""


class RoutedEnd(TokenBuffer):
    """A token buffer that also sends."""

    __slots__ = (
        "_claims",
        "_destination",
        "_dropping",
        "_handed",
        "_listener",
        "_offered",
        "_route",
        "_wanted",
    )

    def __init__(self, tile: "Tile", number: int) -> None:
        super().__init__(tile, number)
        self._claims: list[RoutedEnd] = []  # ends that wait for their route to this one: few, mostly none
        self._destination: int | None = None
        self._route: RoutedEnd | None = None
        self._dropping = False  # a route to nobody is open
        self._listener: Listener | None = None
        self._wanted = 0  # bytes that a normal input waits for, before its first token
        self._handed = b""  # what it got in place of tokens
        self._offered: bytes | None = None  # data of a normal output whose first END was sent

    def output(self, run: Run) -> Steps[None]:
        """Send a run: open the route if need be, wait for room, close the route after END or PAUSE.

        An empty run is no token: it opens no route.
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
        if self._route is None and not self._dropping:
            yield from self._open_route()
        target = self._route
        if target is None:
            self._dropping = not closing
            return
        if run != Control.PAUSE:
            if self._node.tracer is not None:
                self._node.tracer.output(self, run)
            target._deliver(run)
            while target._queued > BUFFER_TOKENS:
                yield
        if closing:
            self._close_route(target)

    def output_packet_at_once(self, data: bytes) -> bool:
        """Output data and END, which open and close the route, where nothing stands in the way."""
        target = self._route
        if target is None:
            if self._destination is None or self._dropping:
                return False
            target = self._switch.find(self._destination)
            if target is None or target._source is not None:
                return False
        queued = target._queued + len(data) + 1
        if queued > BUFFER_TOKENS or target._claims or self._node.tracer is not None:
            return False
        self._route = target._source = None
        if data:
            target._runs.append(data)
        target._runs.append(_END)
        target._queued = queued
        if target._steps is not None:
            self._switch.step(target)
        if target._listener is not None:
            target._listener.fire(target)
        return True

    # A normal output and the input that matches it, where nothing else goes on: the tokens need not cross.

    def hand_over(self, data: bytes) -> bool:
        """Give all of a normal output to the other side, where that waits for just this."""
        target = self._twin()
        if target is None or target._wanted != len(data) or target._queued or not data:
            return False
        target._wanted = 0
        target._handed = data
        self._switch.step(target)
        return True

    def take_handed(self, count: int) -> Steps[bytes]:
        """Wait for the first token of a normal input, or for all of it; no bytes where it was a token."""
        if not self._queued:
            self._wanted = count
            yield
            self._wanted = 0
        data, self._handed = self._handed, b""
        return data

    def offer(self, data: bytes) -> Steps[bool]:
        """Wait for the answer to the first END of a normal output; whether the other side took all of it."""
        self._offered = data
        while not self._queued:
            yield
            if self._offered is None:
                return True
        self._offered = None
        return False

    def take_offer(self, count: int) -> bytes:
        """Take what the other side offers, after its first END; no bytes where tokens have to cross."""
        twin = self._twin()
        data = None if twin is None else twin._offered
        if twin is None or not data or len(data) != count or twin._queued:
            return b""
        twin._offered = None
        self._switch.step(twin)
        return data

    def _twin(self) -> "RoutedEnd | None":
        """The end that this one sends to and that sends to this one, where both are at rest; else None."""
        if self._route is not None or self._queued or self._source is not None or self._claims:
            return None
        twin = self._switch.find(self._destination) if self._destination is not None else None
        if twin is None or twin._destination != self.resource_id or self._node.tracer is not None:
            return None
        if twin._route is not None or twin._source is not None or twin._claims:
            return None
        return twin

    def _open_route(self) -> Steps[None]:
        if self._destination is None:
            raise Trap(TrapKind.LINK_ERROR, f"output on {self.name}, which has no destination")
        target = self._switch.find(self._destination)
        if target is None:
            return
        if target._source is None:
            target._source = self
        else:
            target._claims.append(self)
            while target._source is not self:
                yield
        self._route = target
        if self._node.tracer is not None:
            self._node.tracer.route_opened(self, target)

    def _close_route(self, target: "RoutedEnd") -> None:
        self._route = None
        if self._node.tracer is not None:
            self._node.tracer.route_closed(self, target)
        target._source = target._claims.pop(0) if target._claims else None
        if target._source is not None:
            self._switch.step(target._source)

    def _deliver(self, run: Run) -> None:
        self._runs.append(run)
        self._queued += 1 if isinstance(run, int) else len(run)
        if self._steps is not None:
            self._switch.step(self)
        if self._listener is not None:
            self._listener.fire(self)

    def _output_at_once(self, run: bytes) -> bool:
        """Output without waiting, where the route is open and there is room: the common case, made cheap."""
        target = self._route
        if target is None or target._queued + len(run) > BUFFER_TOKENS or self._steps is not None:
            return False
        if self._node.tracer is not None:
            self._node.tracer.output(self, run)
        target._deliver(run)
        return True
