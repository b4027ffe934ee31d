"""Turns of peers with many messages, so that none of them holds the event loop."""

from typing import Final

import trio

MESSAGES_A_TURN: Final = 64
"""Messages that a listener takes from one peer before others have their turn: well below a millisecond."""


class Turns:
    """Turns of the peers of one listener.

    A peer's first messages are taken as they come. Before each further turn a peer waits here: one such peer
    goes on in each pass of the event loop, in the order in which they asked. While there are some, all others
    with messages wait with them.
    """

    def __init__(self) -> None:
        self._turn = trio.StrictFIFOLock()

    @property
    def are_taken(self) -> bool:
        """Return whether some peer has more than its first messages."""
        return self._turn.locked()

    async def next(self) -> None:
        async with self._turn:
            await trio.lowlevel.checkpoint()
