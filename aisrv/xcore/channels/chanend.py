"""Channel ends: the instructions of the two sides of an end, as verbs."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from trio import current_effective_deadline, current_time
from trio.lowlevel import current_task

from aisrv.xcore.channels.listener import Answer, Call, CallReport, HandedCall
from aisrv.xcore.channels.routes import BUFFER_TOKENS, RoutedEnd, count_of_tokens
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.core import Core, current_core
from aisrv.xcore.report import known_to_use, name_of
from aisrv.xcore.runtime import MAX_VERBS_PER_TURN
from aisrv.xcore.tokens import WORD_BYTES, word_to_wire, words_to_wire
from aisrv.xcore.traps import SizeError, Trap, TrapKind

_ANSWERED: Final = object()
"""A task's `custom_sleep_data` from the answer to a call on: Trio clears it when the task was rescheduled."""


@dataclass(frozen=True, slots=True)
class ChanEndStatistics:
    """State of a channel end at one moment."""

    tokens_queued: int
    """Tokens received but not yet read."""
    buffer_tokens: int
    """Capacity of the buffer, in tokens; what is queued beyond it is of verbs that wait."""
    destination: int | None
    """Resource id of the end that outputs go to."""
    route_open: bool
    """Whether an output has not been closed by END or PAUSE yet."""
    source: int | None
    """Resource id of the end whose route to this one is open."""
    claims: int
    """Ends that wait for their route to this one."""
    verb_in_progress: bool
    """Whether a verb waits on the end."""
    selected: bool
    """Whether a core waits for it in a select."""


class ChanEnd(RoutedEnd):
    """One channel end of a tile. Allocate with `Tile.allocate_chanend`, join two with `Node.channel`.

    Verbs raise `Trap`: LINK_ERROR with no destination set; ILLEGAL_RESOURCE on an end that was freed or
    a token of the wrong kind; RESOURCE_DEP while another task is in a verb or select on the same end,
    but setting the destination and output are open to others while one is in a select.
    A cancelled verb withdraws the tokens that did not fit the receiver's buffer yet; the others stay sent.
    What it has input stays input: that is nothing for up to four tokens, else what it had taken so far.
    A verb of `@whole_verb` goes on by itself instead, and the next verb on the end waits for its end.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return f"<{self.name}, {self._destination_text()}, {count_of_tokens(self._buffer.queued)} queued>"

    def statistics(self) -> ChanEndStatistics:
        """Describe the end as it is now."""
        return ChanEndStatistics(
            tokens_queued=self._buffer.queued,
            buffer_tokens=BUFFER_TOKENS,
            destination=self._destination,
            route_open=self._route is not None,
            source=None if self._source is None else self._source.resource_id,
            claims=len(self._claims),
            verb_in_progress=self._steps is not None,
            selected=self._listener is not None,
        )

    # Output verbs.

    @verb
    def outuint(self, word: int) -> Steps[None]:
        """Output a word: four data tokens, most significant byte first."""
        return self.output(word_to_wire(word))

    @verb
    def outuchar(self, byte: int) -> Steps[None]:
        """Output one data token, `byte`."""
        return self.output(bytes((byte & 0xFF,)))

    @verb
    def outbytes(self, data: bytes | bytearray | memoryview) -> Steps[None]:
        """Output data tokens in the order given: `outuchar` for each byte, in one run."""
        return self.output(bytes(data))

    @verb
    def outwords(self, block: bytes | bytearray | memoryview) -> Steps[None]:
        """Output a block of little-endian words from memory: `outuint` for each word, in one run."""
        return self.output(words_to_wire(block))

    @verb
    def outct(self, token: int) -> Steps[None]:
        """Output a control token, 0 to 191; END and PAUSE close the route."""
        return self.output(int(token))

    # Input verbs.

    @verb
    def inuint(self) -> Steps[int]:
        """Input a word; a control token among its four tokens traps at once."""
        return int.from_bytes((yield from self.input(WORD_BYTES)))

    @verb
    def inuchar(self) -> Steps[int]:
        """Input one data token; a control token traps."""
        return int.from_bytes((yield from self.input(1)))

    @verb
    def inbytes(self, count: int) -> Steps[bytes]:
        """Input `count` data tokens in wire order: `inuchar` for each, in one go."""
        return self.input(count)

    @verb
    def inwords(self, count: int) -> Steps[bytes]:
        """Input `count` words into a little-endian block of memory: `inuint` for each, in one go."""
        return words_to_wire((yield from self.input(count * WORD_BYTES)))

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

    # A select that answers calls: its core does not even wake, since it would come back to the same select.

    async def call(self, call: Call, report: CallReport) -> Answer | None:
        """Have the select that waits at the other side answer at once: with a word and an array.

        `report` tells a tracer of the tokens that these stand for.
        None, and nothing has happened, where the other side has no such select or tokens have to cross.
        A task that has not waited since it was answered lets others run first: another client may be due.
        """
        runtime, task = self.runtime, current_task()
        if task.custom_sleep_data is _ANSWERED:
            await runtime.yield_to_others()
        if self._steps is not None or self._listener is not None or current_core() is not self._user:
            return None
        if runtime.verbs_at_once >= MAX_VERBS_PER_TURN:
            return None
        peer = self.peer_at_rest()
        if peer is None or (listener := peer._listener) is None:
            return None
        deadline = current_effective_deadline()
        if deadline != math.inf and deadline <= current_time():  # the task is about to be cancelled
            return None
        if (answer := listener.answer(call)) is None:
            return None
        runtime.verbs_at_once += 1
        self.crossed += 1
        if runtime.tracer is not None:
            report(runtime.tracer, self, peer, call, answer)
        if listener.has_others:
            task.custom_sleep_data = _ANSWERED
        return answer

    # A select whose core carries calls out itself: it wakes with the whole of it.

    def hand_over(self, call: Call) -> HandedCall | None:
        """Wake the core that waits in a select at the other side, with a call; a step of a larger verb.

        None, and nothing has happened, where it takes no calls or tokens have to cross, as for a tracer.
        """
        if self.runtime.tracer is not None:
            return None
        peer = self.peer_at_rest()
        if peer is None or (listener := peer._listener) is None or not listener.takes_calls:
            return None
        self.crossed += 1
        peer.handed = handed = HandedCall(call, self)
        listener.fire(peer)
        return handed

    def take_call(self) -> HandedCall | None:
        """Take the call that was handed over, if any."""
        handed, self.handed = self.handed, None
        return handed

    # Reports: who could wake the core that waits here.

    def wakers(self) -> list[Core | None]:
        """Return the cores that could unblock the waiter, any of them; None is somebody outside."""
        return [known_to_use(end.user) for end in self._awaited()[1]]

    def explain_wait(self) -> str:
        """Describe what the core waits for, and the ends and cores that could bring it."""
        what, ends = self._awaited()
        return f"{what} {', '.join(map(self._end_text, ends)) or 'nothing'}"

    def _end_text(self, end: RoutedEnd) -> str:
        """Describe an end that could bring what the core waits for."""
        route = ", whose route is open" if end is self._source else ""
        return f"{end.name} of {name_of(end.user)}{route}"

    def _destination_text(self) -> str:
        return "no destination" if self._destination is None else f"destination 0x{self._destination:08x}"

    def _awaited(self) -> tuple[str, Sequence[RoutedEnd]]:
        """Say what the verb in progress waits for, and list the ends of which any could bring it."""
        if self._steps is not None and self._destination is not None:
            target: RoutedEnd | None = self._switch.find(self._destination)
            if target is not None and self in target._claims:
                holder = target._source
                return f"waits for a route to {target.name}, held by", [] if holder is None else [holder]
            if isinstance(route := self._route, RoutedEnd) and route._buffer.queued > BUFFER_TOKENS:
                return f"{count_of_tokens(route._buffer.queued)} wait at", [route]
        sources = [end for end in self._switch if end.destination == self.resource_id]
        return f"{self._destination_text()}, {count_of_tokens(self._buffer.queued)} buffered, fed by", sources
