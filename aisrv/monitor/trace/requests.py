"""The way from a host's request to the command that it became: a flow of the trace."""

from collections import deque
from typing import Final

from aisrv.monitor.trace.writer import TraceWriter

HOST_OF: Final = "host of "
"""Begins the name of the process of a device's host, where its requests stand."""
MOST_PENDING: Final = 64
"""Requests whose command has not begun; older ones, as of commands that no engine gets, are forgotten."""


class Requests:
    """The requests of one device that asked for a command, the oldest first."""

    def __init__(self, writer: TraceWriter) -> None:
        self._writer = writer
        self._pending: deque[tuple[str, int]] = deque(maxlen=MOST_PENDING)

    def ask(self, command: str) -> int:
        """Note a request for a command, by its name; return the flow that begins there."""
        flow = self._writer.next_flow()
        self._pending.append((command, flow))
        return flow

    def begin(self, command: str) -> int:
        """Return the flow that ends where a command begins: of its oldest request; 0 where there is none."""
        found = next((each for each in self._pending if each[0] == command), None)
        if found is None:
            return 0
        self._pending.remove(found)
        return found[1]
