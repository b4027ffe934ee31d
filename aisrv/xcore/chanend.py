"""Channel ends: the firmware's verbs on the two sides of an end.

Behavior: "The XCORE substrate", section Tokens and channel ends. A verb that is made of others is written
in steps (`tokenbuffer`, `route`), and carried out by `perform` (`steps`).
"""

from typing import TYPE_CHECKING, Final

from aisrv.xcore.route import Listener, RoutedEnd
from aisrv.xcore.tokens import WORD_BYTES, words_to_wire
from aisrv.xcore.traps import Trap, TrapKind

if TYPE_CHECKING:
    from aisrv.xcore.tile import Tile

_OUTPUT_VERBS: Final = frozenset(("setd", "outuint", "outuchar", "outct", "outbytes", "outwords"))


class ChanEnd(RoutedEnd):
    """One channel end of a tile. Allocate with `Tile.allocate_chanend`, join two with `Node.channel`.

    Verbs raise `Trap`: LINK_ERROR with no destination set; ILLEGAL_RESOURCE on an end that was freed or
    a token of the wrong kind; RESOURCE_DEP while another task is in a verb or select on the same end,
    but setting the destination and output are open to others while one is in a select.
    A cancelled verb withdraws the tokens that did not fit the receiver's buffer yet; the others stay sent.
    What it has input stays input: that is nothing for up to four tokens, else what it had taken so far.
    """

    __slots__ = ("_freed",)

    def __init__(self, tile: "Tile", number: int) -> None:
        super().__init__(tile, number)
        self._freed = False

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

    # What the switch, a select and other ends call.

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

    def _input_at_once(self, count: int) -> bytes:
        """Take the first run without waiting, where it is just what is asked for; else return no bytes."""
        return self.take_run(count) if self._steps is None and self._listener is None else b""

    def _withdraw(self) -> None:
        """Undo what a cancelled verb has not finished: its claim on a route, its tokens past the buffer."""
        super()._withdraw()
        self._wanted, self._handed, self._offered = 0, b"", None
        target = self._route
        if target is not None:
            target._drop_past_buffer()
        elif self._destination is not None:
            claimed = self._switch.find(self._destination)
            if claimed is not None and self in claimed._claims:
                claimed._claims.remove(self)
