"""Channel ends: the firmware's verbs on a buffer of eight tokens.

The state is a queue of *runs*. Tokens past the eighth are still in the sender's hands: its verb
returns once no more than eight are queued, so that a program sees the blocking of single tokens while
a block crosses in one piece. Behaviour: "The XCORE substrate", section Tokens and channel ends.
"""

from collections import deque
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

import outcome

from aisrv.xcore.core import Parking
from aisrv.xcore.tokens import LAST_CONTROL, WORD_BYTES, Control, Run, words_to_wire
from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from aisrv.xcore.tile import Tile

BUFFER_TOKENS: Final = 8
RESOURCE_TYPE: Final = 2
"""Bits 0 to 7 of the resource id of a channel end."""

_CLOSING: Final = frozenset((Control.END, Control.PAUSE))
_END: Final = int(Control.END)
_OUTPUT_VERBS: Final = frozenset(("setd", "outuint", "outuchar", "outct", "outbytes", "outwords"))

T = TypeVar("T")
Steps = Generator[None, None, T]
"""A verb in steps: yields where it must wait for tokens or room, returns the verb's result."""


class Listener(Protocol):
    """What a select leaves at each of its resources."""

    def fire(self, resource: object) -> None:
        """Take note that the resource is ready."""


class ChanEnd:
    """One channel end of a tile. Allocate with `Tile.allocate_chanend`, join two with `Node.channel`.

    Verbs raise `Trap`: LINK_ERROR with no destination set; ILLEGAL_RESOURCE on an end that was freed or
    a token of the wrong kind; RESOURCE_DEP while another task is in a verb or select on the same end,
    but setting the destination and output are open to others while one is in a select.
    A cancelled verb withdraws the tokens that did not fit the receiver's buffer yet; the others stay sent.
    What it has input stays input: that is nothing for up to four tokens, else what it had taken so far.
    """

    __slots__ = (
        "_claims",
        "_destination",
        "_dropping",
        "_error",
        "_freed",
        "_listener",
        "_node",
        "_offset",
        "_parking",
        "_queued",
        "_result",
        "_route",
        "_runs",
        "_source",
        "_steps",
        "_switch",
        "number",
        "resource_id",
        "tile",
    )

    def __init__(self, tile: "Tile", number: int) -> None:
        self.tile: Final = tile
        self.number: Final = number
        self.resource_id: Final = tile.resource_id(RESOURCE_TYPE, number)
        self._node = tile.node
        self._switch = tile.node.switch
        self._runs: deque[Run] = deque()
        self._offset = 0  # bytes already taken from the first run
        self._queued = 0  # tokens in all runs
        self._source: ChanEnd | None = None  # whose route is open to this end
        self._claims: deque[ChanEnd] = deque()  # ends that wait for their route to this one
        self._destination: int | None = None
        self._route: ChanEnd | None = None
        self._dropping = False  # a route to nobody is open
        self._steps: Steps[Any] | None = None
        self._result: Any = None  # of a verb that was done without parking
        self._error: Exception | None = None
        self._parking = Parking(tile.node)
        self._listener: Listener | None = None
        self._freed = False

    @property
    def name(self) -> str:
        """Name with resource id, as traps and reports give it."""
        return f"chanend 0x{self.resource_id:08x}"

    def __repr__(self) -> str:
        return f"<{self.name}, {self._queued} tokens queued>"

    @property
    def ready(self) -> bool:
        """Whether a token waits: what a select asks; an end that was freed traps."""
        if self._freed:
            self._check_usable("select")
        return self._queued > 0

    # Verbs of the firmware.

    def setd(self, destination: "ChanEnd | int") -> None:
        """Set the end that outputs go to, by object or resource id; refused while a route is open."""
        self._check_usable("setd")
        if self._route is not None or self._dropping:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"setd on {self.name} while its route is open")
        self._destination = destination if isinstance(destination, int) else destination.resource_id

    async def outuint(self, word: int) -> None:
        """Output a word: four data tokens, most significant byte first."""
        run = (word & 0xFFFFFFFF).to_bytes(WORD_BYTES, "big")
        if not self._output_at_once(run):
            await self.perform("outuint", self.output(run))

    async def outuchar(self, byte: int) -> None:
        """Output one data token."""
        await self.perform("outuchar", self.output(bytes((byte & 0xFF,))))

    async def outct(self, token: int) -> None:
        """Output a control token, 0 to 191; END and PAUSE close the route."""
        await self.perform("outct", self.output(int(token)))

    async def outbytes(self, data: bytes | bytearray | memoryview) -> None:
        """Output data tokens in the order given: `outuchar` for each byte, in one run."""
        await self.perform("outbytes", self.output(bytes(data)))

    async def outwords(self, block: bytes | bytearray | memoryview) -> None:
        """Output a block of little-endian words from memory: `outuint` for each word, in one run."""
        await self.perform("outwords", self.output(words_to_wire(block)))

    async def inuint(self) -> int:
        """Input a word; a control token among its four tokens traps at once."""
        data = self._input_at_once(WORD_BYTES) or await self.perform("inuint", self._input_short(WORD_BYTES))
        return int.from_bytes(data, "big")

    async def inuchar(self) -> int:
        """Input one data token; a control token traps."""
        return (await self.perform("inuchar", self.input_data(1)))[0]

    async def inct(self) -> int:
        """Input a control token; data traps."""
        return await self.perform("inct", self.input_control())

    async def chkct(self, token: int) -> None:
        """Consume the control token that must come next; anything else traps and is not consumed."""
        await self.perform("chkct", self.check_control(token))

    async def testct(self) -> bool:
        """Wait for a token and say whether it is a control token; consumes nothing."""
        return await self.perform("testct", self.test_control())

    async def testwct(self) -> int:
        """Wait for four tokens or a control token: its place among those four from 1, or 0 for data only."""
        return await self.perform("testwct", self.test_word_control())

    async def inbytes(self, count: int) -> bytes:
        """Input `count` data tokens in wire order: `inuchar` for each, in one go."""
        return self._input_at_once(count) or await self.perform("inbytes", self.input_data(count))

    async def inwords(self, count: int) -> bytes:
        """Input `count` words into a little-endian block of memory: `inuint` for each, in one go."""
        size = count * WORD_BYTES
        return words_to_wire(
            self._input_at_once(size) or await self.perform("inwords", self.input_data(size))
        )

    def free(self) -> None:
        """Give the end back to its tile; tokens buffered, a route open or a verb in progress trap."""
        self._check_usable("freer")
        if self._queued or self._source or self._claims or self._route or self._dropping:
            raise Trap(
                TrapKind.ILLEGAL_RESOURCE,
                f"freer on {self.name} with {self._queued} tokens buffered or a route open",
            )
        self._freed = True
        self._switch.remove(self)
        self.tile.release_chanend(self)

    # Verbs in steps. `yield from` them in a compound verb, and give that to `perform`.

    async def perform(self, verb: str, steps: Steps[T]) -> T:
        """Carry out a verb made of steps; the task sleeps until all of them are done.

        A verb that need not wait is done at once and lets nobody else run; where it waits it can be
        cancelled. The buffer is so small that no pair of cores goes far without waiting.
        """
        if self._steps is not None or self._listener is not None or self._freed:
            self._check_usable(verb)
        self._steps = steps
        self._switch.step(self)
        result: T
        if self._steps is not None:
            result = await self._parking.park(verb, self, self._withdraw)
            return result
        if self._error is not None:
            error, self._error = self._error, None
            raise error
        result, self._result = self._result, None
        return result

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

    def input_data(self, count: int) -> Steps[bytes]:
        """Take `count` data tokens; a control token among them traps."""
        if taken_at_once := self.take_run(count):
            return taken_at_once
        if count <= WORD_BYTES:
            return (yield from self._input_short(count)) if count else b""
        taken = bytearray()
        while len(taken) < count:
            if self._runs:
                taken += self._take_data(count - len(taken))
            else:
                yield
        return bytes(taken)

    def input_control(self) -> Steps[int]:
        """Take a control token; data traps."""
        while not self._runs:
            yield
        token = self._runs[0]
        if not isinstance(token, int):
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected a control token on {self.name}, got data")
        self._runs.popleft()
        self._consumed(token)
        return token

    def check_control(self, token: int) -> Steps[None]:
        """Take that control token; anything else traps and stays."""
        while not self.take_control(token):
            yield

    def test_control(self) -> Steps[bool]:
        """Wait for a token; whether it is a control token."""
        while not self._runs:
            yield
        return isinstance(self._runs[0], int)

    def test_word_control(self) -> Steps[int]:
        """Wait for four tokens or a control token among them; its place from 1, or 0."""
        while not (place := self._control_within(WORD_BYTES)) and self._queued < WORD_BYTES:
            yield
        return place

    def input_until_control(self, limit: int) -> Steps[bytes | int]:
        """Take data up to a control token, and that token too where no data precedes it.

        Returns at most `limit` data tokens as they come, or the control token.
        """
        while not self._runs:
            yield
        head = self._runs[0]
        if isinstance(head, int):
            self._runs.popleft()
            self._consumed(head)
            return head
        return self._take_data(limit)

    # Parts of steps that need not wait. A false answer means that nothing was done: wait, or take the long way.

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

    def take_control(self, token: int) -> bool:
        """Take that control token where a token waits; anything else traps and stays."""
        if not self._runs:
            return False
        head = self._runs[0]
        if head != token:
            got = f"control token {head}" if isinstance(head, int) else "data"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected control token {token} on {self.name}, got {got}")
        self._runs.popleft()
        self._consumed(token)
        return True

    def take_run(self, count: int) -> bytes:
        """Take the first run where it has just `count` data tokens; else no bytes."""
        if self._runs and not self._offset:
            head = self._runs[0]
            if not isinstance(head, int) and len(head) == count:
                self._runs.popleft()
                self._consumed(head)
                return head
        return b""

    # What the switch, a select and other ends call.

    def advance(self) -> None:
        """Step the verb in progress, if any, as far as its tokens and room allow."""
        if self._steps is None:
            return
        try:
            self._steps.send(None)
        except StopIteration as done:
            self._steps = None
            if self._parking.task is not None:
                self._parking.wake(outcome.Value(done.value))
            else:
                self._result = done.value
        except Exception as error:  # the caller of the verb gets it, not the task that made it go on
            self._steps = None
            if self._parking.task is not None:
                self._parking.wake(outcome.Error(error))
            else:
                self._error = error

    def listen(self, listener: Listener) -> None:
        """Let a select know when the first token comes."""
        self._check_usable("select")
        self._listener = listener

    def stop_listening(self) -> None:
        """Forget the select's listener."""
        self._listener = None

    # The state machine.

    def _check_usable(self, verb: str) -> None:
        if self._idle:
            return
        if self._freed:
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{verb} on {self.name}, which was freed")
        if self._steps is None and verb in _OUTPUT_VERBS:
            return  # a core in a select owns the input only
        raise Trap(TrapKind.RESOURCE_DEP, f"{verb} on {self.name} while another core is using it")

    @property
    def _idle(self) -> bool:
        return self._steps is None and self._listener is None and not self._freed

    def _output_at_once(self, run: bytes) -> bool:
        """Output without waiting, where the route is open and there is room: the common case, made cheap."""
        target = self._route
        if target is None or target._queued + len(run) > BUFFER_TOKENS or self._steps is not None:
            return False
        if self._node.tracer is not None:
            self._node.tracer.output(self, run)
        target._deliver(run)
        return True

    def _input_at_once(self, count: int) -> bytes:
        """Take the first run without waiting, where it is just what is asked for; else return no bytes."""
        return self.take_run(count) if self._steps is None and self._listener is None else b""

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

    def _close_route(self, target: "ChanEnd") -> None:
        self._route = None
        if self._node.tracer is not None:
            self._node.tracer.route_closed(self, target)
        target._source = target._claims.popleft() if target._claims else None
        if target._source is not None:
            self._switch.step(target._source)

    def _deliver(self, run: Run) -> None:
        self._runs.append(run)
        self._queued += 1 if isinstance(run, int) else len(run)
        if self._steps is not None:
            self._switch.step(self)
        if self._listener is not None:
            self._listener.fire(self)

    def _withdraw(self) -> None:
        """Undo what a cancelled verb has not finished: its claim on a route, its tokens past the buffer."""
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()
        target = self._route
        if target is not None:
            target._drop_past_buffer()
        elif self._destination is not None:
            claimed = self._switch.find(self._destination)
            if claimed is not None and self in claimed._claims:
                claimed._claims.remove(self)

    def _drop_past_buffer(self) -> None:
        excess = self._queued - BUFFER_TOKENS
        while excess > 0:
            last = self._runs.pop()
            size = 1 if isinstance(last, int) else len(last)  # some of the first run stays, and its offset
            if not isinstance(last, int) and size > excess:
                self._runs.append(last[:-excess])
                size = excess
            self._queued -= size
            excess -= size

    def _consumed(self, taken: Run) -> None:
        """Account for tokens taken off the queue, and let the sender go on where that made room."""
        before = self._queued
        self._queued = after = before - (1 if isinstance(taken, int) else len(taken))
        if self._node.tracer is not None:
            self._node.tracer.input(self, taken)
        if before > BUFFER_TOKENS >= after and self._source is not None:
            self._switch.step(self._source)

    def _take_data(self, limit: int) -> bytes:
        """Take up to `limit` data tokens from the first run."""
        head = self._runs[0]
        if isinstance(head, int):
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected data on {self.name}, got control token {head}")
        if len(head) - self._offset <= limit:
            taken = head[self._offset :] if self._offset else head
            self._runs.popleft()
            self._offset = 0
        else:
            taken = head[self._offset : self._offset + limit]
            self._offset += limit
        self._consumed(taken)
        return taken

    def _input_short(self, count: int) -> Steps[bytes]:
        while True:
            if self._control_within(count):
                raise Trap(TrapKind.ILLEGAL_RESOURCE, f"expected data on {self.name}, got a control token")
            if self._queued >= count:
                break
            yield
        taken = self._take_data(count)
        while len(taken) < count:
            taken += self._take_data(count - len(taken))
        return taken

    def _control_within(self, count: int) -> int:
        """Place from 1 of the first control token among the next `count` tokens, or 0."""
        place = -self._offset
        for run in self._runs:
            if isinstance(run, int):
                return place + 1
            place += len(run)
            if place >= count:
                break
        return 0
