"""A Jacdac bus that joins another hub over TCP, such as that of `devs devtools`."""

import logging
from typing import Final, NoReturn

import trio

from aisrv.attach.jacdac.framed_stream import join_stream
from phy.jacdac.bus import JacdacBus

logger = logging.getLogger(__name__)

SHORTEST_PAUSE: Final = 0.25
LONGEST_PAUSE: Final = 5.0
"""Seconds between two attempts: twice as long after each, within these bounds."""


async def join_hub(bus: JacdacBus, host: str, port: int) -> NoReturn:
    """Join a hub until cancelled, and again whenever the connection ends or cannot be had."""
    pause = SHORTEST_PAUSE
    while True:
        try:
            stream = await trio.open_tcp_stream(host, port)
        except OSError as error:
            logger.info("no Jacdac hub at %s:%d: %s", host, port, error)
        else:
            logger.info("joined the Jacdac hub at %s:%d", host, port)
            pause = SHORTEST_PAUSE
            try:
                async with stream:
                    await join_stream(stream, bus.join(f"hub:{host}:{port}"))
            except (trio.BrokenResourceError, OSError) as error:
                logger.info("the Jacdac hub at %s:%d went away: %s", host, port, error)
        await trio.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)
