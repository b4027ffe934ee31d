"""An SPI link server, for hosts in this loop and for hosts that block; and a slave that inverts."""

from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Any

import trio

from aisrv.attach.spi_link import SpiLinkServer
from phy.spi.bus import SpiPort, SpiTransfer

Slaves = Callable[[], AbstractAsyncContextManager[Mapping[str, SpiPort]]]


@dataclass
class InvertingSlave:
    """Answers each byte with its complement; keeps what was clocked, and whether chip select is low."""

    messages: list[list[SpiTransfer]] = field(default_factory=list)
    releases: int = 0
    selected: bool = False

    async def message(self, transfers: Sequence[SpiTransfer]) -> list[bytes]:
        await trio.lowlevel.checkpoint()
        self.messages.append(list(transfers))
        if transfers:
            self.selected = not transfers[-1].deselect
        return [bytes(255 - byte for byte in each.mosi) for each in transfers]

    async def release(self) -> None:
        await trio.lowlevel.checkpoint()
        self.releases += 1
        self.selected = False

    @property
    def transfers(self) -> list[SpiTransfer]:
        return [each for message in self.messages for each in message]

    @property
    def mosi(self) -> list[bytes]:
        """The bytes of each transfer."""
        return [each.mosi for each in self.transfers]


@asynccontextmanager
async def serving(slaves: Mapping[str, SpiPort]) -> AsyncIterator[tuple[str, int]]:
    """A server in this loop; gives its address."""
    async with trio.open_nursery() as nursery:
        yield await nursery.start(SpiLinkServer(slaves).serve)
        nursery.cancel_scope.cancel()


@contextmanager
def served_from(slaves: Slaves) -> Iterator[str]:
    """A server in a thread of its own, before slaves that are opened there; gives HOST:PORT."""
    ready: SimpleQueue[Any] = SimpleQueue()

    async def main() -> None:
        stop = trio.Event()
        token = trio.lowlevel.current_trio_token()
        async with slaves() as opened, serving(opened) as (host, port):
            ready.put((f"{host}:{port}", partial(trio.from_thread.run_sync, stop.set, trio_token=token)))
            await stop.wait()

    thread = Thread(target=trio.run, args=(main,), daemon=True)
    thread.start()
    address, stop = ready.get(timeout=20)
    try:
        yield address
    finally:
        stop()
        thread.join(20)


@contextmanager
def served(slaves: Mapping[str, SpiPort]) -> Iterator[str]:
    """A server in a thread of its own; gives HOST:PORT."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Mapping[str, SpiPort]]:
        yield slaves

    with served_from(opened) as address:
        yield address
