"""A request to the flash server on its channel: both sides, in the order of the wire.

    client                                server
    END
                                          END
    command, arguments, data bytes, END
                                          bytes, or NACK and code, END
    END

NACK and a word with the code may also take the place of the rest of the bytes. Instead of its next token a
client may send NACK and END at any moment after its first END: the server gives the request up and sends ACK
and END. That is ours; a client that never does so needs not know it. Sources: the design document, section
Flash; "XCORE AI server: numbers and wire behavior", section Flash; lib_xcore's channel_transaction.h.

What takes the request is not a verb but steps, for `ChanEnd.perform` under the name of the request.
"""

from typing import NoReturn

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import Trap, TrapKind
from flash_server.protocol import PIECE_BYTES, FlashFailure, FlashReadError, FlashRequest, failure_text

# The request.


def send_request(c: ChanEnd, request: FlashRequest) -> Steps[None]:
    """Client: open the transaction and send the request."""
    yield from c.packet(b"")
    yield from c.chkct(Control.END)
    yield from c.packet(bytes(request))


@verb
def receive_request(c: ChanEnd, limit: int) -> Steps[bytes | None]:
    """Server: take a request's data tokens, `limit` at most; None if it was given up or never opened."""
    run = yield from c.in_until_control(PIECE_BYTES)
    if run != Control.END:
        yield from _acknowledge_end(c, run)
        return None
    yield from c.packet(b"")
    data = bytearray()
    while not isinstance(run := (yield from c.in_until_control(PIECE_BYTES)), int):
        data += run[: limit - len(data)]
    if run != Control.END:
        yield from _acknowledge_end(c, run)
        return None
    return bytes(data)


# The answer. The server sends its bytes with `ChanEnd.outbytes`; where `c.ready`, the client gave up.


def receive_bytes(c: ChanEnd, request: FlashRequest, size: int) -> Steps[bytes]:
    """Client: take the next `size` bytes of the answer."""
    runs: list[bytes] = []
    while size:
        runs.append((yield from _receive_run(c, request, size)))
        size -= len(runs[-1])
    return b"".join(runs)


def receive_into(c: ChanEnd, request: FlashRequest, view: memoryview) -> Steps[None]:
    """Client: take as many bytes of the answer as the view has, into it."""
    while view:
        run = yield from _receive_run(c, request, len(view))
        view[: len(run)] = run
        view = view[len(run) :]


def _receive_run(c: ChanEnd, request: FlashRequest, limit: int) -> Steps[bytes]:
    run = yield from c.in_until_control(limit)
    if isinstance(run, bytes):
        return run
    return (yield from _receive_failure(c, request, run))


@verb
def send_failure(c: ChanEnd, code: FlashFailure) -> Steps[None]:
    """Server: fail in place of the rest of the answer."""
    # With END, ACK and END these are eight tokens: they fit the buffer of a client that gave up.
    yield from c.outct(Control.NACK)
    yield from c.outuint(code)


def _receive_failure(c: ChanEnd, request: FlashRequest, run: bytes | int) -> Steps[NoReturn]:
    """Client: take the code after NACK, close the transaction and raise FlashReadError."""
    if run != Control.NACK:
        got = f"control token {run}" if isinstance(run, int) else "more data"
        raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{request} on {c.name}: {got} where the answer should go on")
    code = yield from c.inuint()
    yield from c.chkct(Control.END)
    yield from c.outct(Control.END)
    raise FlashReadError(code, f"{request}: {failure_text(code)}")


# The end.


@verb
def end_answer(c: ChanEnd) -> Steps[None]:
    """Server: end the answer, or the failure, and await the end of the transaction."""
    yield from c.packet(b"")
    run = yield from c.in_until_control(PIECE_BYTES)
    if run != Control.END:
        yield from _acknowledge_end(c, run)


def end_request(c: ChanEnd, request: FlashRequest) -> Steps[None]:
    """Client: await the end of the answer and close the transaction."""
    run = yield from c.in_until_control(1)
    if run != Control.END:
        yield from _receive_failure(c, request, run)
    yield from c.packet(b"")


# Giving up.


@verb
def give_up(c: ChanEnd) -> Steps[None]:
    """Client: give up the open transaction; does not wait."""
    while c.ready:  # makes room for whatever the server still has to say
        yield from c.in_until_control(PIECE_BYTES)
    yield from c.outct(Control.NACK)
    yield from c.outct(Control.END)


def _acknowledge_end(c: ChanEnd, run: bytes | int) -> Steps[None]:
    """Server: the client gave up instead of its END: drop all up to that and acknowledge it."""
    while run != Control.END:
        run = yield from c.in_until_control(PIECE_BYTES)
    yield from c.outct(Control.ACK)
    yield from c.outct(Control.END)


@verb
def await_acknowledgment(c: ChanEnd) -> Steps[None]:
    """Client: drop the rest of an answer that was given up."""
    while (yield from c.in_until_control(PIECE_BYTES)) != Control.ACK:
        pass
    yield from c.chkct(Control.END)
