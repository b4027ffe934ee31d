"""Normal outputs that cross at once: the side that comes second carries both verbs out.

A normal output and the input that matches it are four packets in one known order: END, END back, the data
and END, END back. So their outcome is known where the two ends send to each other, no route is open, no
token waits, and both verbs are there. An input that comes first notes what it waits for: an `Input`, before
its first token. An output that comes first sends its first END and notes its data: an `Output`. Either is
the field `noted` of its end, and goes where the verb is cancelled.

Both ends, and the tasks, are left as the tokens would have left them, and a tracer is told of these tokens.
Where anything else is so, nothing is changed, and the tokens cross. Proof by example:
tests/xcore/channels/test_chanend_shortcuts.py.
"""

from msgspec import Struct

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.verb import Steps
from aisrv.xcore.trace import report_array, report_normal_output, report_rest_of_normal_output


class Input(Struct):
    """A normal input before its first token, and what was delivered to it."""

    count: int
    """Bytes that it inputs."""
    room: int
    """An array shorter than this may come along."""
    data: bytes = b""
    array: bytes | None = None


class Output(Struct):
    """A normal output whose first END was sent, and whether the other side took it."""

    data: bytes
    taken: bool = False


def deliver_directly(c: ChanEnd, data: bytes, array: bytes | bytearray | memoryview | None = None) -> bool:
    """Deliver a normal output of `data`, and the array after it, to a side that waits for just this."""
    peer = c.peer_at_rest()
    if peer is None or peer.has_tokens or not isinstance(waiting := peer.noted, Input) or waiting.data:
        return False  # where it has data already, what comes next is of this step, too
    if waiting.count != len(data) or not data or (array is not None and len(array) >= waiting.room):
        return False
    if (tracer := c.runtime.tracer) is not None:
        report_normal_output(tracer, c, peer, data)
        if array is not None:
            report_array(tracer, c, peer, array)
    c.crossed += 1
    waiting.data, waiting.array = data, None if array is None else bytes(array)
    c.runtime.switch.step(peer)
    return True


def await_direct(c: ChanEnd, count: int, room: int = 0) -> Steps[Input | None]:
    """Wait for the first token of a normal input of `count` bytes, or for all of it; None where it was that.

    An array of less than `room` bytes may come along.
    """
    if c.has_tokens:
        return None
    c.noted = waiting = Input(count, room)
    yield
    c.noted = None
    return waiting if waiting.data else None


def publish(c: ChanEnd, data: bytes) -> Steps[bool]:
    """Wait for the answer to the first END of a normal output of `data`; whether the other side took all."""
    c.noted = offered = Output(data)
    while not (c.has_tokens or offered.taken):
        yield
    c.noted = None
    return offered.taken


def take_published(c: ChanEnd, count: int) -> bytes:
    """Take what the other side offers, after its first END; no bytes where that is not `count` bytes."""
    peer = c.peer_at_rest()
    if peer is None or peer.has_tokens or not isinstance(offered := peer.noted, Output):
        return b""
    data = offered.data
    if len(data) != count or not data:
        return b""
    if (tracer := c.runtime.tracer) is not None:
        report_rest_of_normal_output(tracer, peer, c, data)
    peer.crossed += 1
    offered.taken = True
    c.runtime.switch.step(peer)
    return data
