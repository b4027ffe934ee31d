"""A model on its way to a Model Runner: gathered aside, while the engine serves on. No I/O."""

from collections.abc import Callable
from typing import Final

from aisrv.addons.jacdac.task.service import Host
from aisrv.addons.jacdac.wire.pipes import InPipe
from aisrv.addons.jacdac.wire.timers import SECOND

SILENCE: Final = 5 * SECOND
"""Time after which a silent upload is given up: a command names no sender whose absence could be noticed."""


class Upload:
    """The pipe of a set_model."""

    def __init__(
        self,
        device: Host,
        size: int,
        complete: Callable[["Upload"], None],
        silent: Callable[["Upload"], None],
    ) -> None:
        """Open a pipe for `size` bytes; one of the functions is called at its end."""
        self.size: Final = size
        """Bytes announced."""
        self.received = 0
        """Bytes received; those past the size are counted and not kept."""
        self.model = bytearray()
        self.sender: Final = device.sender
        """Sender of the command; None if unknown."""
        self._device = device
        self._complete = complete
        self._silent = silent
        self.port: Final = device.pipes.open(InPipe(self._take, self._close))
        self._timer = device.timers.after(SILENCE, self._give_up)

    @property
    def is_whole(self) -> bool:
        """Return whether all bytes announced were received."""
        return self.received == self.size

    def abort(self) -> None:
        self._timer.cancel()
        self._device.pipes.close(self.port)

    def _take(self, data: bytes) -> None:
        self._timer.cancel()
        self._timer = self._device.timers.after(SILENCE, self._give_up)
        self.model += data[: self.size - len(self.model)]
        self.received += len(data)

    def _close(self) -> None:
        self._timer.cancel()
        self._complete(self)

    def _give_up(self) -> None:
        self._device.pipes.close(self.port)
        self._silent(self)
