"""Interfaces over channels: a channel for each client, whose calls the server's core takes one by one.

A call is a packet with the method's number and the arguments; so is its answer. A notification is a control
token and END. One that is raised while its client waits for an answer goes with the answer.
"""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar

import trio

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.core import Core, Handed
from aisrv.xcore.interface_methods import LENGTH_BITS, Method, Methods
from aisrv.xcore.listener import Answer, Call, Listener
from aisrv.xcore.notification import Notification, NotificationEvent
from aisrv.xcore.select import Selection
from aisrv.xcore.tokens import Control, word_to_wire
from aisrv.xcore.traps import Trap, TrapKind
from aisrv.xcore.verb import Steps

T = TypeVar("T")
_NOTIFY: Final = 0x10
"""The control token of a notification; a decision, as XC's own is not published."""
_LENGTH: Final = (1 << LENGTH_BITS) - 1
_NOTIFIED: Final = 31
"""The bit of an answer's first word that says that a notification was raised meanwhile."""


class _Forward:
    """What an event leaves at each of its ends, in place of a select's listener: it fires as the event."""

    has_others = True
    takes_calls = False
    use = "a select"

    def __init__(self, event: object) -> None:
        self._event = event
        self.listener: Listener | None = None
        """That of the select which waits for the event."""

    @property
    def user_name(self) -> str:
        """Name of who waits for the event."""
        return "nobody" if self.listener is None else self.listener.user_name

    def fire(self, resource: object) -> None:
        """Wake the select, unless the tokens are those of a call that goes on by itself."""
        if self.listener is not None and isinstance(resource, ChanEnd) and not resource.is_left:
            self.listener.fire(self._event)

    def answer(self, call: Call) -> Answer | None:
        """Answer nothing."""


class _ChannelEvent(NotificationEvent):
    """A notification that comes over the channel of a client."""

    def __init__(self, end: ChanEnd, name: str) -> None:
        super().__init__(end.runtime, end.tile, f"{name} on {end.name}")
        self._end = end
        self._forward = _Forward(self)

    @property
    def ready(self) -> bool:
        return self.is_pending or (not self._end.is_left and self._end.ready)

    @property
    def next_clock(self) -> int | None:
        """The clock of what is on its way, in device time."""
        return getattr(self._end, "next_clock", None)

    def listen(self, listener: Listener) -> None:
        super().listen(listener)
        self._forward.listener = listener
        self._end.listen(self._forward)

    def stop_listening(self, listener: Listener) -> None:
        super().stop_listening(listener)
        self._end.stop_listening(self._forward)

    def call_ended(self) -> None:
        """Wake the select where a notification has come after the answer of a call that went on by itself."""
        if self._listener is not None and self._end.has_tokens:
            self._listener.fire(self)

    async def take(self) -> None:
        await Selection(self).wait()
        if not self.is_pending:
            await self._end.run_whole_verb("take", self._take())
        self.is_pending = False

    def _take(self) -> Steps[None]:
        yield from self._end.chkct(_NOTIFY)
        yield from self._end.chkct(Control.END)

    def wakers(self) -> Sequence[Core | None]:
        return self._end.wakers()

    def explain_wait(self) -> str:
        return self._end.explain_wait()


class ChannelCalls:
    """The calls of one client."""

    def __init__(self, methods: Methods, end: ChanEnd) -> None:
        self._end = end
        self.event: Final = _ChannelEvent(end, methods.notification_title)
        """That of the interface's notification."""

    def assign(self, core: Core) -> None:
        """Note which core is the client, for reports."""
        self._end.assign(core)

    async def call(self, method: Method, arguments: tuple[Any, ...]) -> Any:  # noqa: ANN401 - a result
        """Call a method and return its result. A call that is cancelled is carried out all the same."""
        steps = self._exchange(method, method.arguments.pack(arguments))
        return method.result.unpack(await self._end.run_whole_verb(method.title, steps))

    def _exchange(self, method: Method, data: bytes) -> Steps[bytes]:
        c = self._end
        yield from c.packet(word_to_wire(method.number << LENGTH_BITS | len(data)) + data)
        while (yield from c.testct()):
            yield from c.chkct(_NOTIFY)
            yield from c.chkct(Control.END)
            if not method.clears:
                self.event.come()
        word = yield from c.inuint()
        result = yield from c.inbytes(word & _LENGTH)
        yield from c.chkct(Control.END)
        if method.clears:
            self.event.is_pending = False
        if word >> _NOTIFIED:
            self.event.come()
        self.event.call_ended()
        return result


class Request:
    """A client's call, which the server has accepted and must answer."""

    __match_args__ = ("client", "method", "arguments")

    def __init__(
        self, server: "Server[Any]", client: int, method: Method, arguments: tuple[Any, ...]
    ) -> None:
        self.client: Final = client
        """The client's number."""
        self.method: Final = method.name
        """The method's name."""
        self.arguments: Final = arguments
        self._server = server
        self._called = method

    async def answer(self, result: object = None) -> None:
        """Let the client go on with a `result`. Raises InterfaceError where it has not the declared type."""
        await self._server.answer(self, self._called, result)

    async def carry_out(self, implementation: object) -> None:
        """Call the method of the `implementation`, and answer with what it returns."""
        await self.answer(await getattr(implementation, self.method)(*self.arguments))


class Server(Handed, Generic[T]):
    """The server's side of an interface with a channel to each client; as an event, that one of them calls.

    The server accepts one call at a time, and answers it before the next: both else trap.
    """

    def __init__(self, methods: Methods, ends: Sequence[ChanEnd]) -> None:
        self._methods = methods
        self._ends = tuple(ends)
        self._selection = Selection(*ends)
        self._raised = [False] * len(ends)
        self._open: Request | None = None
        self._raised_within = False
        self._forward = _Forward(self)
        self.runtime: Final = self._ends[0].runtime
        """What it shares with the resources of its node."""
        self.tile: Final = self._ends[0].tile
        """The tile's number."""
        self.name: Final = " and ".join(end.name for end in ends)
        """The names of its ends, as traps and reports give them."""

    def handed_to(self, core: Core) -> None:
        """Note which core is the server, for reports."""
        for end in self._ends:
            end.assign(core)

    @property
    def caller(self) -> int | None:
        """The client whose call is accepted and not answered yet."""
        return None if self._open is None else self._open.client

    async def accept(self) -> Request:
        """Wait for a call and accept it: of several clients any one's."""
        if self._open is not None:
            called = f"{self._methods.interface}.{self._open.method} of client {self._open.client}"
            place = f"accept on {self.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place} before {called} was answered", place)
        end = await self._selection.wait()
        assert isinstance(end, ChanEnd)  # noqa: S101 - for the type checker
        with trio.CancelScope(shield=True):  # what has begun to come comes whole
            word, data = await end.run_verb("accept", self._take(end))
        client, method = self._ends.index(end), self._methods.by_number[word >> LENGTH_BITS]
        if method.clears:
            self._raised[client] = False
        self._raised_within = False
        self._open = Request(self, client, method, method.arguments.unpack(data))
        return self._open

    async def serve(self, implementation: T) -> None:
        """Accept calls and have the `implementation` carry each out, without end."""
        while True:
            request = await self.accept()
            await request.carry_out(implementation)

    async def answer(self, request: Request, method: Method, result: object) -> None:
        """Answer the `request` that is open, of a `method`, with a `result`."""
        if request is not self._open:
            place = f"answer to {method.title} of client {request.client}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which was answered", place)
        end, data = self._ends[request.client], method.result.pack(result)
        self._open = None
        packet = word_to_wire(self._raised_within << _NOTIFIED | len(data)) + data
        with trio.CancelScope(shield=True):  # the client waits for it, or has left it to itself
            await end.run_verb("answer", end.packet(packet))

    async def notify(self, client: int, notification: Notification) -> None:
        """Raise the interface's `notification` at a `client`, by number; nothing where it is raised already.

        Never blocks. Raises InterfaceError for another interface's, SizeError where there is no such client.
        """
        self._methods.check_notification(notification, client, len(self._ends))
        if self._raised[client]:
            return
        self._raised[client] = True
        if client == self.caller:
            self._raised_within = True
            return
        end = self._ends[client]
        with trio.CancelScope(shield=True):
            await end.run_verb("outct", self._notify(end))

    def _take(self, end: ChanEnd) -> Steps[tuple[int, bytes]]:
        word = yield from end.inuint()
        data = yield from end.inbytes(word & _LENGTH)
        yield from end.chkct(Control.END)
        return word, data

    def _notify(self, end: ChanEnd) -> Steps[None]:
        yield from end.outct(_NOTIFY)
        yield from end.outct(Control.END)

    # As an event of a select.

    @property
    def ready(self) -> bool:
        """Whether a client calls."""
        return any(end.ready for end in self._ends)

    @property
    def next_clock(self) -> int | None:
        """The clock of the first call on its way, in device time."""
        clocks = [getattr(end, "next_clock", None) for end in self._ends]
        return min((clock for clock in clocks if clock is not None), default=None)

    def listen(self, listener: Listener) -> None:
        """Let a select know when a client calls."""
        self._forward.listener = listener
        for end in self._ends:
            end.listen(self._forward)

    def stop_listening(self, listener: Listener) -> None:
        """Forget a select's listener; that of another select stays."""
        if self._forward.listener is listener:
            self._forward.listener = None
            for end in self._ends:
                end.stop_listening(self._forward)

    def wakers(self) -> list[Core | None]:
        """Return the clients' cores."""
        return [waker for end in self._ends for waker in end.wakers()]

    def explain_wait(self) -> str:
        """Describe what each end waits for."""
        return "; ".join(end.explain_wait() for end in self._ends)
