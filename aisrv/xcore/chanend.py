"""Channel ends: the firmware's verbs on the two sides of an end, and the routes between ends.

An end buffers eight tokens. A block of data is queued in one piece all the same, and the verb that sent it
returns once no more than eight of its tokens are queued: a program sees what single tokens would show it,
and a block crosses at the price of a token. Behavior: "The XCORE substrate", section Tokens and channel ends.
"""

import logging
import types
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, Protocol, TypeVar

from trio import current_effective_deadline, current_time
from trio.lowlevel import current_task

from aisrv.xcore.core import Core, check_tile, current_core
from aisrv.xcore.pool import Pool
from aisrv.xcore.report import known_to_use, name_of, verb_of
from aisrv.xcore.runtime import MOST_AT_ONCE, Parking, Runtime
from aisrv.xcore.tokenbuffer import TokenBuffer
from aisrv.xcore.tokens import LAST_CONTROL, WORD_BYTES, Control, Run, word_to_wire, words_to_wire
from aisrv.xcore.trace import TracedEnd, Tracer
from aisrv.xcore.traps import SizeError, Trap, TrapKind, check_size
from aisrv.xcore.verb import Steps, Verb, verb

T = TypeVar("T")

logger = logging.getLogger(__name__)

RESOURCE_TYPE: Final = 2
"""Bits 0 to 7 of the resource id of a channel end."""

CHANENDS: Final = 32
"""Channel ends of a tile."""

BUFFER_TOKENS: Final = 8

_CLOSING: Final = frozenset((Control.END, Control.PAUSE))
_END: Final = int(Control.END)
_ANSWERED: Final = object()
"""A task's `custom_sleep_data` from the answer to a call on: Trio clears it when the task was rescheduled."""
_OUTPUT_VERBS: Final = frozenset(("setd", "outuint", "outuchar", "outct", "outbytes", "outwords"))


class Call(NamedTuple):
    """What a core outputs to another, and what it takes in answer, as one value."""

    first: int
    second: int
    array: bytes | memoryview
    """What follows the two words, where anything does."""
    room: int
    """An answer's array must be shorter than this."""


Answer = tuple[int, bytes]
"""A word, and an array."""

CallReport = Callable[[Tracer, TracedEnd, TracedEnd, Call, Answer], None]
"""Reports the tokens of a call between two ends and of its answer."""


class Listener(Protocol):
    """What a select leaves at each of its resources."""

    @property
    def user_name(self) -> str:
        """Name of the core that waits in the select, or of the task outside of any core."""

    @property
    def has_others(self) -> bool:
        """Whether its core waits for other resources, too."""

    def fire(self, resource: object) -> None:
        """Take note that the resource is ready."""

    def answer(self, call: Call) -> Answer | None:
        """Answer in the task that calls; see `Selection`. None where the core has to."""


@dataclass(frozen=True, slots=True)
class ChanEndStatistics:
    """How a channel end stands at one moment."""

    tokens_queued: int
    """Tokens that came in and were not input."""
    buffer_tokens: int
    """Of these, as many fit the end; the others' senders wait."""
    destination: int | None
    """Resource id of the end that outputs go to."""
    route_open: bool
    """Whether an output has not been closed by END or PAUSE yet."""
    source: int | None
    """Resource id of the end whose route to this one is open."""
    claims: int
    """Ends that wait for their route to this one."""
    verb_in_progress: bool
    """The verb that waits on the end, or None."""
    selected: bool
    """Whether a core waits for it in a select."""


class ChanEnd:
    """One channel end of a tile. Allocate with `Tile.allocate_chanend`, join two with `Node.channel`.

    Verbs raise `Trap`: LINK_ERROR with no destination set; ILLEGAL_RESOURCE on an end that was freed or
    a token of the wrong kind; RESOURCE_DEP while another task is in a verb or select on the same end,
    but setting the destination and output are open to others while one is in a select.
    A cancelled verb withdraws the tokens that did not fit the receiver's buffer yet; the others stay sent.
    What it has input stays input: that is nothing for up to four tokens, else what it had taken so far.
    A verb of `@whole_verb` goes on by itself instead, and the next verb on the end waits for its end.
    """

    __slots__ = (
        "_buffer",
        "_claims",
        "_destination",
        "_dropping",
        "_error",
        "_freed",
        "_listener",
        "_parking",
        "_pool",
        "_result",
        "_route",
        "_source",
        "_steps",
        "_switch",
        "_user",
        "left",
        "noted",
        "number",
        "resource_id",
        "runtime",
        "stepping",
        "tile",
    )

    def __init__(self, runtime: Runtime, tile: int, pool: Pool) -> None:
        """Allocate an end with a number from its tile's pool, which gets it back when the end is freed."""
        self.runtime: Final = runtime
        self.tile: Final = tile
        """The tile's number."""
        self.number: Final = pool.take()
        self.resource_id: Final = runtime.resource_id(tile, RESOURCE_TYPE, self.number)
        self._pool = pool
        self._freed = False
        self._switch = runtime.switch
        self._user: Core | None = None  # the core whose verb began last
        # Input.
        self._buffer = TokenBuffer()
        self._source: ChanEnd | None = None  # the end whose route is open to this one
        self._claims: tuple[ChanEnd, ...] = ()  # ends that wait for their route to this one: few, mostly none
        self._listener: Listener | None = None
        # Output.
        self._destination: int | None = None
        self._route: ChanEnd | None = None
        self._dropping = False  # a route to nobody is open
        # The verb in progress.
        self._steps: Steps[Any] | None = None
        self.left: Steps[None] | None = None
        """The verb that was left to itself last, because its task was cancelled; it may have ended."""
        self.stepping = False
        """Whether the verb in progress is being stepped right now: what it calls is a step of it."""
        self._parking: Parking[Any] = Parking(runtime)
        self._result: Any = None  # of a verb that was done without parking
        self._error: Exception | None = None
        self.noted: object = None
        """What the verb in progress has noted for the other side: see `handover`."""
        self._switch.register(self)

    def __repr__(self) -> str:
        return f"<{self.name}, {self._destination_text()}, {_tokens(self._buffer.queued)} queued>"

    @property
    def name(self) -> str:
        """Name with resource id, as traps and reports give it."""
        return f"chanend 0x{self.resource_id:08x}"

    def setd(self, destination: "ChanEnd | int") -> None:
        """Set the `destination` of outputs, by object or resource id; refused while a route is open.

        What can never be a channel end of the node traps with ILLEGAL_RESOURCE: 0, the id of a timer or lock.
        The end itself need not be there yet.
        """
        check_tile(self.tile, f"setd on {self.name}")
        self._check_usable("setd")
        resource_id = destination.resource_id if isinstance(destination, ChanEnd) else destination
        foreign = isinstance(destination, ChanEnd) and destination.runtime is not self.runtime
        if foreign or not isinstance(resource_id, int) or not self._may_be_chanend(resource_id):
            place = f"setd on {self.name}"
            reason = f"{place} to {_shown(destination)}, which is not a channel end of this node"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, reason, place)
        if self._route is not None or self._dropping:
            raise Trap(
                TrapKind.ILLEGAL_RESOURCE,
                f"setd on {self.name} while its route is open",
                f"setd on {self.name}",
            )
        self._destination = resource_id

    def join(self, other: "ChanEnd") -> None:
        """Make this end and another one, of any tile, the destination of each other, before they are used."""
        self._destination, other._destination = other.resource_id, self.resource_id

    def free(self) -> None:
        """Give the end back to its tile; tokens buffered, a route open or a verb in progress trap.

        After the end of its node it does nothing.
        """
        if self.runtime.has_ended:
            return
        check_tile(self.tile, f"freer on {self.name}")
        self._check_usable("freer")
        if cause := self._why_not_free():
            place = f"freer on {self.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place} {cause}", place)
        self._freed = True
        self._destination = None
        self._switch.remove(self)
        self._pool.give_back(self.number)

    def _why_not_free(self) -> str:
        """Return the first reason why the end cannot be freed now; empty where it can."""
        if self._buffer.queued:
            return f"with {_tokens(self._buffer.queued)} buffered"
        if self._source is not None:
            return f"while the route of {self._source.name} to it is open"
        if self._route is not None:
            return f"while its route to {self._route.name} is open"
        return "while its route to nobody is open" if self._dropping else ""

    def _may_be_chanend(self, resource_id: int) -> bool:
        """Return whether this is the id of a channel end that is or may be allocated."""
        tile, number = resource_id >> 16 & 1, resource_id >> 8 & 0xFF
        fits = tile < self.runtime.tiles and number < CHANENDS
        return fits and resource_id == self.runtime.resource_id(tile, RESOURCE_TYPE, number)

    @property
    def destination(self) -> int | None:
        """Resource id of the end that outputs go to; None where none is set."""
        return self._destination

    def statistics(self) -> ChanEndStatistics:
        """Describe the end as it is now."""
        return ChanEndStatistics(
            tokens_queued=self._buffer.queued,
            buffer_tokens=BUFFER_TOKENS,
            destination=self._destination,
            route_open=self._route is not None or self._dropping,
            source=None if self._source is None else self._source.resource_id,
            claims=len(self._claims),
            verb_in_progress=self._steps is not None,
            selected=self._listener is not None,
        )

    # Reports: who could wake the core that waits here.

    @property
    def user(self) -> Core | None:
        """The core that uses the end, as far as is known; None for a program outside of the node."""
        return self._user

    def assign(self, core: Core) -> None:
        """Note which core is to use the end, for reports; no core of another tile can."""
        if core.tile == self.tile:
            self._user = core

    def wakers(self) -> list[Core | None]:
        """Return the cores of which any could wake the one that waits here; None is somebody outside."""
        return [known_to_use(end.user) for end in self._awaited()[1]]

    def explain_wait(self) -> str:
        """Describe what the core waits for, and the ends and cores that could bring it."""
        what, ends = self._awaited()
        return f"{what} {', '.join(map(self._end_text, ends)) or 'nothing'}"

    def _end_text(self, end: "ChanEnd") -> str:
        """Describe an end that could bring what the core waits for."""
        route = ", whose route is open" if end is self._source else ""
        return f"{end.name} of {name_of(end.user)}{route}"

    def _destination_text(self) -> str:
        return "no destination" if self._destination is None else f"destination 0x{self._destination:08x}"

    def _awaited(self) -> "tuple[str, list[ChanEnd]]":
        """Say what the verb in progress waits for, and list the ends of which any could bring it."""
        if self._steps is not None and self._destination is not None:
            target = self._switch.find(self._destination)
            if target is not None and self in target._claims:
                holder = target._source
                return f"waits for a route to {target.name}, held by", [] if holder is None else [holder]
            route = self._route
            if route is not None and route._buffer.queued > BUFFER_TOKENS:
                return f"{_tokens(route._buffer.queued)} wait at", [route]
        sources = [end for end in self._switch if end._destination == self.resource_id]
        return f"{self._destination_text()}, {_tokens(self._buffer.queued)} buffered, fed by", sources

    # Output verbs.

    @verb
    def outuint(self, word: int) -> Steps[None]:
        """Output a word: four data tokens, most significant byte first."""
        return self._output(word_to_wire(word))

    @verb
    def outuchar(self, byte: int) -> Steps[None]:
        """Output one data token, `byte`."""
        return self._output(bytes((byte & 0xFF,)))

    @verb
    def outbytes(self, data: bytes | bytearray | memoryview) -> Steps[None]:
        """Output data tokens in the order given: `outuchar` for each byte, in one run."""
        return self._output(bytes(data))

    @verb
    def outwords(self, block: bytes | bytearray | memoryview) -> Steps[None]:
        """Output a block of little-endian words from memory: `outuint` for each word, in one run."""
        return self._output(words_to_wire(block))

    @verb
    def outct(self, token: int) -> Steps[None]:
        """Output a control token, 0 to 191; END and PAUSE close the route."""
        return self._output(int(token))

    # Input verbs.

    @verb
    def inuint(self) -> Steps[int]:
        """Input a word; a control token among its four tokens traps at once."""
        return int.from_bytes((yield from self._input(WORD_BYTES)))

    @verb
    def inuchar(self) -> Steps[int]:
        """Input one data token; a control token traps."""
        return int.from_bytes((yield from self._input(1)))

    @verb
    def inbytes(self, count: int) -> Steps[bytes]:
        """Input `count` data tokens in wire order: `inuchar` for each, in one go."""
        return self._input(count)

    @verb
    def inwords(self, count: int) -> Steps[bytes]:
        """Input `count` words into a little-endian block of memory: `inuint` for each, in one go."""
        return words_to_wire((yield from self._input(count * WORD_BYTES)))

    @verb
    def in_until_control(self, limit: int) -> Steps[bytes | int]:
        """Input data up to a control token, and that token where no data precede it.

        Returns at most `limit` data tokens as they came, or the control token. A limit below 1 is a
        SizeError.
        """
        if limit < 1:
            raise SizeError(f"limit of tokens to input: {limit} is less than 1")
        while (run := self.take_until_control(limit)) is None:
            yield
        return run

    @verb
    def inct(self) -> Steps[int]:
        """Input a control token; data traps."""
        while not self._buffer.queued:
            yield
        token = self._buffer.take_control()
        if token is None:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected a control token on {self.name}, got data")
        self._taken(token, 1)
        return token

    @verb
    def chkct(self, token: int) -> Steps[None]:
        """Consume the control token that must come next; anything else traps and is not consumed."""
        while not self.take_control(token):
            yield

    @verb
    def testct(self) -> Steps[bool]:
        """Wait for a token and say whether it is a control token; consumes nothing."""
        while not self._buffer.queued:
            yield
        return self._buffer.control is not None

    @verb
    def testwct(self) -> Steps[int]:
        """Wait for four tokens or a control token: its place among those four from 1, or 0 for data only."""
        buffer = self._buffer
        while not (place := buffer.control_within(WORD_BYTES)) and buffer.queued < WORD_BYTES:
            yield
        return place

    # Select.

    @property
    def ready(self) -> bool:
        """Whether a token waits: what a select asks; an end that was freed traps."""
        if self._freed:
            self._check_usable("select")
        return self._buffer.queued > 0

    def listen(self, listener: Listener) -> None:
        """Let a select know when the first token comes."""
        if self._steps is not None or self._listener is not None:
            self._check_usable("select")
        self._listener = listener

    def stop_listening(self, listener: Listener) -> None:
        """Forget a select's listener; that of another select stays."""
        if self._listener is listener:
            self._listener = None

    # The verb in progress.

    def perform_whole(self, verb: str, steps: Steps[T]) -> Generator[Any, Any, T]:
        """Carry out the `steps` of a verb, as `perform`; where the task is cancelled it goes on by itself."""
        return self.perform(verb, steps, self._leave)

    def leave(self, verb: "Callable[[ChanEnd], Steps[object] | Verb[object]]") -> None:
        """Carry out a verb without a task; the next one on the end waits for its end."""
        self._steps = self.left = self._left_alone(verb)
        self._switch.step(self)

    def forget_left(self) -> None:
        """Give up a verb that goes on by itself, which knows its end: the node has ended."""
        if self.is_left:
            self._steps = None
        self.left = None

    @property
    def is_left(self) -> bool:
        """Whether the verb in progress goes on by itself."""
        return self.left is not None and self.left is self._steps

    @types.coroutine
    def perform(
        self, verb: str, steps: Steps[T], on_cancel: Callable[[], None] | None = None
    ) -> Generator[Any, Any, T]:
        """Carry out a verb; the task sleeps until all of its steps are done.

        A verb that need not wait is done at once and lets nobody else run; where it waits it can be
        cancelled. The buffer is so small that no pair of cores goes far without waiting; the verbs of a core
        that never waits, as one that outputs to nobody, let others run after `MOST_AT_ONCE` of them.
        `on_cancel` is called at a cancellation, in place of undoing what the verb has not finished.
        """
        if self.runtime.verbs_at_once >= MOST_AT_ONCE:
            yield from self.runtime.let_others_run()
        core = current_core()
        if core is not self._user:
            check_tile(self.tile, f"{verb} on {self.name}")
        if self._steps is not None or self._listener is not None or self._freed:
            while self.is_left and self._parking.task is None:
                yield from self._parking.park(verb, self)
            self._check_usable(verb)
        self._user = core
        self._steps = steps
        self._switch.step(self)
        try:
            if self._steps is not None:
                result: T = yield from self._parking.park(verb, self, on_cancel or self._withdraw)
                return result
            if self._error is not None:
                error, self._error = self._error, None
                raise error
        except Trap as trap:
            trap.place = trap.place or f"{verb} on {self.name}"
            raise
        self.runtime.verbs_at_once += 1
        result, self._result = self._result, None
        return result

    def advance(self) -> None:
        """Step the verb in progress, if any, as far as its tokens and room allow; the switch calls it."""
        if self._steps is None:
            return
        self.stepping = True
        try:
            self._steps.send(None)
        except StopIteration as done:
            self._steps = None
            if self._parking.task is None:
                self._result = done.value
            else:
                self._parking.wake(done.value)
        except Exception as error:  # the caller of the verb gets it, not the task that made it go on
            self._steps = None
            if not self._parking.fail(error):
                self._error = error
        finally:
            self.stepping = False

    def _leave(self) -> None:
        """Let the verb in progress go on by itself, as its task was cancelled."""
        steps = self._steps
        if steps is not None:
            self._steps = self.left = self._left_alone(lambda _: steps)

    def _left_alone(self, verb: "Callable[[ChanEnd], Steps[object] | Verb[object]]") -> Steps[None]:
        """Carry out a verb of which nobody takes the result, or the error."""
        try:
            yield from verb(self)
        except Exception:
            logger.exception("%s: a verb failed whose task was cancelled", self.name)

    def _withdraw(self) -> None:
        """Undo what a cancelled verb has not finished: its claim on a route, its tokens past the buffer."""
        self._steps = None
        self.noted = None
        target = self._route
        if target is not None:
            target._buffer.withdraw_past(BUFFER_TOKENS)
        elif self._destination is not None:
            claimed = self._switch.find(self._destination)
            if claimed is not None:
                claimed._claims = tuple(end for end in claimed._claims if end is not self)

    def _check_usable(self, verb: str) -> None:
        """Trap where the verb may not begin now."""
        if self._freed:
            place = f"{verb} on {self.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which was freed", place)
        if self._steps is not None or (self._listener is not None and verb not in _OUTPUT_VERBS):
            place = f"{verb} on {self.name}"
            if self._listener is None:
                by, using = self._parking.user_name, verb_of(self._parking.task)
            else:
                by, using = self._listener.user_name, "a select"
            raise Trap(TrapKind.RESOURCE_DEP, f"{place} while {by} is in {using} on it", place)

    # Routes: opened by the first token, closed by END or PAUSE. While one is open its destination belongs to
    # its source, and other sources wait in the order in which they asked.

    def _output(self, run: Run) -> Steps[None]:
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
        if self._route is None and not self._dropping:
            yield from self._open_route()
        target = self._route
        if target is None:
            self._dropping = not closing
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
        target = self._switch.find(self._destination)
        if target is None:
            return
        if target._source is None:
            target._source = self
        else:
            target._claims = (*target._claims, self)
            while target._source is not self:
                yield
        self._route = target
        if self.runtime.tracer is not None:
            self.runtime.tracer.route_opened(self, target)

    def _close_route(self, target: "ChanEnd") -> None:
        self._route = None
        if self.runtime.tracer is not None:
            self.runtime.tracer.route_closed(self, target)
        target._source = None
        if target._claims:
            target._source, *rest = target._claims
            target._claims = tuple(rest)
            self._switch.step(target._source)

    def _deliver(self, target: "ChanEnd", run: Run) -> None:
        if self.runtime.tracer is not None:
            self.runtime.tracer.output(self, run)
        target._buffer.push(run)
        if target._steps is not None or target._listener is not None:
            target._tokens_arrived()

    def _tokens_arrived(self) -> None:
        """Step the verb or wake the core that waits for tokens."""
        if self._steps is not None:
            self._switch.step(self)
        if self._listener is not None:
            self._listener.fire(self)

    def packet(self, data: bytes) -> Steps[None]:
        """Send data tokens and END, which close the route; a step of larger verbs."""
        if not self._output_packet_at_once(data):
            yield from self._output(data)
            yield from self._output(_END)

    # Input.

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

    def _input(self, count: int) -> Steps[bytes]:
        """Take `count` data tokens; a control token among them traps, of up to four tokens none is taken."""
        buffer = self._buffer
        if buffer.queued and (data := self.take_run(count)):
            return data
        if count < 0:
            check_size(count, "tokens to input")
        if 0 < count <= WORD_BYTES:
            while not (control := buffer.control_within(count)) and buffer.queued < count:
                yield
            if control:
                found = f"control token {buffer.first_control()}"
                raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected data on {self.name}, got {found}")
            if data := self.take_run(count):
                return data
        taken = bytearray()
        while len(taken) < count:
            if buffer.queued:
                taken += self._take_data(count - len(taken))
            else:
                yield
        return bytes(taken)

    def take_run(self, count: int) -> bytes:
        """Take the first run where it has just `count` data tokens; else no bytes."""
        run = self._buffer.take_run(count)
        if run:
            self._taken(run, count)
        return run

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
            self.runtime.tracer.input(self, run)
        queued = self._buffer.queued
        if queued <= BUFFER_TOKENS < queued + size and self._source is not None:
            self._switch.step(self._source)

    # Shortcuts: a packet that fits the buffer, a call, and those of `handover`, which ask for `twin`. Both
    # ends, their routes and their buffers are left as the tokens of the verb would have left them, the same
    # tasks have run on, with the same results, and a tracer is told of the tokens. So a shortcut is taken
    # only where the outcome of all of its tokens is known before the first one goes, and nobody could see
    # them on their way: no third end that claims the route, no token queued that is not looked at. Else it
    # changes nothing, and the tokens cross. Proof by example: tests/xcore/test_chanend_shortcuts.py.

    def _output_packet_at_once(self, data: bytes) -> bool:
        """Output data and END over a route that opens and closes within the verb."""
        target = self._route
        if target is None:
            if self._destination is None or self._dropping:
                return False
            target = self._switch.find(self._destination)
            if target is None or target._source is not None:
                return False
        buffer = target._buffer
        if buffer.queued + len(data) >= BUFFER_TOKENS or target._claims:
            return False
        if self.runtime.tracer is not None:
            self._report_packet(self.runtime.tracer, target, data)
        self._route = target._source = None
        if data:
            buffer.push(data)
        buffer.push(_END)
        target._tokens_arrived()
        return True

    def _report_packet(self, tracer: Tracer, target: "ChanEnd", data: bytes) -> None:
        if self._route is None:
            tracer.route_opened(self, target)
        if data:
            tracer.output(self, data)
        tracer.output(self, _END)
        tracer.route_closed(self, target)

    # A select that answers calls: its core does not even wake, since it would come back to the same select.

    async def call(self, call: Call, report: CallReport) -> Answer | None:
        """Have the select that waits at the other side answer at once: with a word and an array.

        `report` tells a tracer of the tokens that these stand for.
        None, and nothing has happened, where the other side has no such select or tokens have to cross.
        A task that has not waited since it was answered lets others run first: another client may be due.
        """
        runtime, task = self.runtime, current_task()
        if task.custom_sleep_data is _ANSWERED:
            await runtime.let_others_run()
        if self._steps is not None or self._listener is not None or runtime.verbs_at_once >= MOST_AT_ONCE:
            return None
        if current_core() is not self._user:
            return None
        twin = self.twin()
        listener = None if twin is None else twin._listener
        if listener is None or current_effective_deadline() <= current_time():
            return None
        answer = listener.answer(call)
        if answer is not None:
            runtime.verbs_at_once += 1
            if runtime.tracer is not None and twin is not None:
                report(runtime.tracer, self, twin, call, answer)
            if listener.has_others:
                task.custom_sleep_data = _ANSWERED
        return answer

    def twin(self) -> "ChanEnd | None":
        """Return the end at the other side of a channel; None where tokens may be on their way."""
        if self._destination is None or self._buffer.queued or self._has_route():
            return None
        twin: ChanEnd | None = self._switch.find(self._destination)
        if twin is None or twin._destination != self.resource_id or twin._has_route():
            return None
        return twin

    def _has_route(self) -> bool:
        """Whether a route from the end or to it is open."""
        return self._route is not None or self._dropping or self._source is not None


def _tokens(count: int) -> str:
    return f"{count} token" if count == 1 else f"{count} tokens"


def _shown(destination: object) -> str:
    """Show what is to be a destination, and may be anything."""
    if isinstance(destination, int):
        return f"0x{destination:08x}"
    return "nothing" if destination is None else repr(destination)
