"""A Jacdac bus that joins another hub over TCP, such as that of `devs devtools`."""

import logging
from typing import Final, NoReturn

import trio

from aisrv.attach.jacdac.framed_stream import join_stream
from aisrv.attach.peer_stream import PeerStream
from aisrv.attach.stream_server import closing_connection
from aisrv.attach.turns import Turns
from aisrv.device.failures import Failures
from aisrv.protocol.jacdac.stream import StreamError
from phy.jacdac.bus import JacdacBus

logger = logging.getLogger(__name__)

SHORTEST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 5.0
"""Seconds between two attempts: twice as long after each, within these bounds."""


async def join_hub(bus: JacdacBus, host: str, port: int) -> NoReturn:
    """Join a hub until cancelled, and again whenever the connection ends or fails."""
    pause = SHORTEST_PAUSE
    turns = Turns()
    with Failures(logger) as failures:
        while True:
            try:
                stream = await trio.open_tcp_stream(host, port)
            except (OSError, UnicodeError) as error:  # a name that no codec takes is a UnicodeError
                logger.info("no Jacdac hub at %s:%d: %s", host, port, error)
            else:
                logger.info("joined the Jacdac hub at %s:%d", host, port)
                pause = SHORTEST_PAUSE
                name = f"the Jacdac hub at {host}:{port}"
                with failures.contain(f"the connection to {name}"):
                    async with closing_connection(stream, name, StreamError, logger):
                        await join_stream(PeerStream(stream, turns), bus.join(f"hub:{host}:{port}"))
            await trio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)
    raise AssertionError("it goes on until it is cancelled")
