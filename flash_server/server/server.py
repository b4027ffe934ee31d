"""The flash server: a task that serves one chip to clients on any tile, over channels.

A client's request is one transaction, done whole before the next client's. Every request is answered, with a
failure too. The tokens: `flash_server.transaction`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.select import select
from aisrv.xcore.tokens import WORD_BYTES
from flash_server.errors import FlashError
from flash_server.image.nibbles import SWAP
from flash_server.protocol import PIECE_BYTES, FlashFailure, FlashRequest
from flash_server.server.service import (
    LOADER_HANDLERS,
    READ_HANDLERS,
    FlashService,
    Handler,
    RequestFailed,
    Response,
    failure_of,
)
from flash_server.transaction import end_answer, receive_request, send_failure

_KEPT_BYTES: Final = 3 * WORD_BYTES + PIECE_BYTES
"""Longest kept request; no command takes as many bytes, so a longer one is refused in any case."""


async def flash_server(
    service: FlashService,
    engines: Sequence[ChanEnd],
    loaders: Sequence[ChanEnd] = (),
    windows: Sequence[ChanEnd] = (),
) -> None:
    """Read the chip as at reset, then serve until cancelled.

    Client i of `engines`, and of `windows`, reads the segments of header i; `loaders` write upgrades and the
    data partition.
    """
    await service.reset()
    clients = [_Client(c, f"engine {number}", number, READ_HANDLERS) for number, c in enumerate(engines)]
    clients += [_Client(c, f"window {number}", number, READ_HANDLERS) for number, c in enumerate(windows)]
    clients += [_Client(c, f"loader {number}", number, LOADER_HANDLERS) for number, c in enumerate(loaders)]
    by_name = {client.c.name: client for client in clients}
    ends = [client.c for client in clients]
    while True:
        await _serve(service, by_name[(await select(*ends)).name])


@dataclass(frozen=True, slots=True)
class _Client:
    c: ChanEnd
    name: str
    number: int
    handlers: Mapping[int, Handler]


async def _serve(service: FlashService, client: _Client) -> None:
    c = client.c
    wire = await receive_request(c, _KEPT_BYTES)
    if wire is None:
        return
    request: FlashRequest | None = None
    try:
        handler, request = _parse(client, wire)
        await _send(service, c, await handler.run(service, client.number, request))
    except (RequestFailed, FlashError) as error:
        text = f"request of {len(wire)} bytes" if request is None else request
        service.log(f"flash, {client.name}: {text}: {error}")
        await send_failure(c, failure_of(error))
    await end_answer(c)


def _parse(client: _Client, wire: bytes) -> tuple[Handler, FlashRequest]:
    if len(wire) < WORD_BYTES:
        raise RequestFailed(FlashFailure.BAD_REQUEST, f"a command is {WORD_BYTES} bytes, {len(wire)} came")
    command = int.from_bytes(wire[:WORD_BYTES], "big")
    handler = client.handlers.get(command)
    if handler is None:
        raise RequestFailed(
            FlashFailure.UNKNOWN_COMMAND, f"no {client.name.split()[0]} has command {command:#x}"
        )
    fixed = (1 + handler.arguments) * WORD_BYTES
    if not fixed <= len(wire) <= fixed + handler.data_limit:
        raise RequestFailed(
            FlashFailure.BAD_REQUEST,
            f"command {command:#x} takes {handler.arguments} words and at most {handler.data_limit} bytes, "
            f"{len(wire) - WORD_BYTES} bytes came",
        )
    words = range(WORD_BYTES, fixed, WORD_BYTES)
    arguments = tuple(int.from_bytes(wire[at : at + WORD_BYTES], "big") for at in words)
    return handler, FlashRequest(command, arguments, wire[fixed:])


async def _send(service: FlashService, c: ChanEnd, answer: Response) -> None:
    """Send an answer piece by piece; other tasks run between pieces, and a client that gave up ends it."""
    if c.ready:
        return
    await c.outbytes(answer.head)
    end = answer.offset + answer.size
    for at in range(answer.offset, end, PIECE_BYTES):
        piece = await service.data.read(at, min(PIECE_BYTES, end - at))
        if c.ready:
            return
        await c.outbytes(piece.translate(SWAP) if answer.swapped else piece)
