"""The input side of a channel end: a queue of runs, taken in steps.

The state is a queue of *runs*. Tokens past the eighth are still in the sender's hands: its verb
returns once no more than eight are queued, so that a program sees the blocking of single tokens while
a block crosses in one piece. Behavior: "The XCORE substrate", section Tokens and channel ends.
"""

from collections import deque
from typing import TYPE_CHECKING, Final

from aisrv.xcore.tokens import WORD_BYTES, Run
from aisrv.xcore.traps import Trap, TrapKind
from aisrv.xcore.verb import SteppedResource, Steps

if TYPE_CHECKING:
    from aisrv.xcore.tile import Tile

BUFFER_TOKENS: Final = 8


class TokenBuffer(SteppedResource):
    """Tokens that came in, and the verb that may be waiting for more.

    Generators are verbs in steps: `yield from` them in a compound verb and give that to `ChanEnd.perform`.
    """

    __slots__ = ("_offset", "_queued", "_runs", "_source")

    def __init__(self, tile: "Tile", number: int) -> None:
        super().__init__(tile, number)
        self._runs: deque[Run] = deque()
        self._offset = 0  # bytes already taken from the first run
        self._queued = 0  # tokens in all runs
        self._source: TokenBuffer | None = None  # the end whose route is open to this one

    def __repr__(self) -> str:
        return f"<{self.name}, {self._queued} tokens queued>"

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
