"""A channel between two tiles with a record of every token that crosses it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import open_node
from aisrv.xcore.tokens import Control, Run
from aisrv.xcore.trace import TracedEnd, Tracer

_NAMES = {1: "END", 2: "PAUSE", 3: "ACK", 4: "NACK"}


class Wiretap(Tracer):
    """What each end sent, token by token: data in hexadecimal, control tokens by name."""

    def __init__(self) -> None:
        self._sent: dict[int, list[Run]] = {}

    def output(self, end: TracedEnd, run: Run, tick: int) -> None:
        self._sent.setdefault(end.resource_id, []).append(run)

    def sent(self, end: ChanEnd) -> str:
        words: list[str] = []
        joined = False
        for run in self._sent.get(end.resource_id, []):
            if isinstance(run, int):
                words.append(_NAMES.get(run, str(run)))
            elif joined:
                words[-1] += run.hex()
            else:
                words.append(run.hex())
            joined = not isinstance(run, int)
        return " ".join(words)


@dataclass
class Wire:
    """End `a` on tile 1, end `b` on tile 0, and what they sent."""

    a: ChanEnd
    b: ChanEnd
    tap: Wiretap = field(default_factory=Wiretap)


@asynccontextmanager
async def wire() -> AsyncIterator[Wire]:
    async with open_node() as node:
        channel = node.channel(node.tiles[1], node.tiles[0])
        opened = Wire(channel.a, channel.b)
        with node.tracing(opened.tap):
            yield opened
            node.stop()


async def carry_out(verb: Callable[..., Awaitable[object]], *args: object) -> None:
    """Carry out a verb in a task of its own, as a nursery starts one."""
    await verb(*args)


async def send_tokens(c: ChanEnd, *runs: bytes | int) -> None:
    """Send data tokens in wire order and control tokens."""
    for run in runs:
        if isinstance(run, int):
            await c.outct(run)
        else:
            await c.outbytes(run)


END, NACK = Control.END, Control.NACK
