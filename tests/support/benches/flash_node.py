"""A node with a flash server on tile 1 and clients on tile 0, and images made by hand."""

import struct
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass

import pytest

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.node import Node, open_node
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import SECTOR_ERASE, Erase, FlashPart
from flash_server.chip.partitions import divide
from flash_server.chip.storage import MemoryStorage
from flash_server.client.flash_channel import FlashChannel
from flash_server.protocol import FlashFailure, FlashReadError
from flash_server.server.server import flash_server
from flash_server.server.service import FlashService

KIB = 1024
SMALL = FlashPart("small", 64 * KIB, 0xC22810, erases=(Erase(SECTOR_ERASE, 4 * KIB, 0.0),))
"""16 sectors of 16 pages."""

VERSION = bytes((1, 2, 0xFE, 0xFD))


def swapped(data: bytes) -> bytes:
    return bytes.fromhex("".join(f"{byte:02x}"[::-1] for byte in data))


@dataclass(frozen=True)
class Parts:
    """What an engine has in flash; None = absent. Sizes of all but the model follow from what comes next."""

    model: bytes | None = None
    parameters: bytes | None = None
    operators: bytes | None = None
    xip: bytes | None = None


def image(engines: Sequence[Parts], preamble: bytes = b"") -> bytes:
    """A data partition: preamble, headers, and the parts in the order of the headers."""
    headers = preamble
    body = b""
    start = len(preamble) + 16 * len(engines)
    for parts in engines:
        model = None if parts.model is None else struct.pack("<I", len(parts.model)) + parts.model
        for part in (model, parts.parameters, parts.operators, parts.xip):
            headers += struct.pack("<I", 0 if part is None else start + len(body))
            body += part or b""
    return headers + body


@contextmanager
def refused(code: FlashFailure | int, match: str | None = None) -> Iterator[None]:
    """A block in which the server refuses a request with that code."""
    with pytest.raises(FlashReadError, match=match) as caught:
        yield
    assert caught.value.code == code


@dataclass
class FlashNode:
    node: Node
    chip: FlashChip
    storage: MemoryStorage
    service: FlashService
    engines: list[FlashChannel]
    loaders: list[FlashChannel]
    ends: list[ChanEnd]
    """The channel ends of the engines, for clients that speak for themselves."""
    served: list[ChanEnd]
    """The server's channel ends: those of the engines, then those of the loaders."""
    log: list[str]


def start_server(
    node: Node, part: FlashPart, data: bytes, *, engines: int, loaders: int = 0, boot: bytes = b""
) -> FlashNode:
    """Start a flash server on tile 1 for a chip with that boot partition and that data behind it."""
    storage = MemoryStorage(part.size)
    storage.write(0, boot)
    for at in range(0, len(data), 32 * KIB):
        storage.write(len(boot) + at, data[at : at + 32 * KIB])
    chip = FlashChip(part, storage)
    log: list[str] = []
    service = FlashService(divide(chip, len(boot)), log.append)
    channels = [node.channel(node.tiles[0], node.tiles[1]) for _ in range(engines + loaders)]
    served = [channel.b for channel in channels]
    node.tiles[1].start(flash_server, service, served[:engines], served[engines:])
    clients = [FlashChannel(channel.a) for channel in channels]
    ends = [channel.a for channel in channels[:engines]]
    return FlashNode(node, chip, storage, service, clients[:engines], clients[engines:], ends, served, log)


@asynccontextmanager
async def flash_node(
    data: bytes = b"",
    *,
    engines: int = 1,
    loaders: int = 0,
    boot: bytes = b"",
    part: FlashPart = SMALL,
) -> AsyncIterator[FlashNode]:
    async with open_node(seed=1) as node:
        yield start_server(node, part, data, engines=engines, loaders=loaders, boot=boot)
        node.stop()
