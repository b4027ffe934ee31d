"""The flash server: a task that serves one chip to clients on any tile, over channels.

A client's request is one transaction, carried out whole before the next client's. Whatever a client sends
is answered; a failure is NACK and a word with its code in place of the data, or of the rest of them, and the
transaction closes as always. Sources: the design document, section Flash; "XCORE AI server: numbers and
wire behavior", section Flash; lib_xcore's channel_transaction.h.

    client                                      server
    END                                         END
    command, arguments, data bytes, END         bytes, or NACK and code, END
    END

Instead of its next token a client may send NACK and END at any moment after its first END: the server gives
the request up and sends ACK and END. That is ours; a client that never does so needs not know it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.xcore.chanend import ChanEnd
from aisrv.xcore.select import select
from aisrv.xcore.tokens import WORD_BYTES, Control
from aisrv.xcore.verb import Steps, verb
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

_KEPT_BYTES: Final = 3 * WORD_BYTES + PIECE_BYTES
"""Of a request; no command takes as many, so what is longer is refused whatever it is."""


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
    """Carry out one request."""
    c = client.c
    wire = await _receive_request(c)
    if wire is None:
        return
    text = f"request of {len(wire)} bytes"
    try:
        handler, request = _parse(client, wire)
        text = str(request)
        await _send(service, c, await handler.run(service, client.number, request))
    except (RequestFailed, FlashError) as error:
        service.log(f"flash, {client.name}: {text}: {error}")
        await _send_failure(c, failure_of(error))
    await _close(c)


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


@verb
def _receive_request(c: ChanEnd) -> Steps[bytes | None]:
    """Take a request's data tokens, up to `_KEPT_BYTES`; None where it was given up or never opened."""
    first = yield from c.in_until_control(WORD_BYTES)
    if first != Control.END:
        yield from _drop_to_end(c, first)
        yield from _acknowledge(c)
        return None
    yield from c.outct(Control.END)
    data = bytearray()
    while not isinstance(run := (yield from c.in_until_control(PIECE_BYTES)), int):
        data += run[: _KEPT_BYTES - len(data)]
    if run == Control.END:
        return bytes(data)
    yield from _drop_to_end(c, run)
    yield from _acknowledge(c)
    return None


@verb
def _send_failure(c: ChanEnd, code: FlashFailure) -> Steps[None]:
    # With END, ACK and END these are eight tokens: they fit the buffer of a client that gave up.
    yield from c.outct(Control.NACK)
    yield from c.outuint(code)


@verb
def _close(c: ChanEnd) -> Steps[None]:
    """Close the transaction after the answer."""
    yield from c.outct(Control.END)
    first = yield from c.in_until_control(WORD_BYTES)
    if first != Control.END:
        yield from _drop_to_end(c, first)
        yield from _acknowledge(c)


def _acknowledge(c: ChanEnd) -> Steps[None]:
    yield from c.outct(Control.ACK)
    yield from c.outct(Control.END)


def _drop_to_end(c: ChanEnd, token: bytes | int) -> Steps[None]:
    while token != Control.END:
        token = yield from c.in_until_control(PIECE_BYTES)
