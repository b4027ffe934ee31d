"""A predict of a Model Runner: inputs from one pipe, results into another. No I/O."""

from collections.abc import Callable
from typing import Final

from aisrv.addons.jacdac.task.service import Host
from aisrv.addons.jacdac.wire.pipes import InPipe, OutPipe, PipeArgument
from aisrv.addons.jacdac.wire.timers import SECOND

IDLE: Final = 60 * SECOND
"""Time after which a predict ends whose owner has never announced itself."""
MOST_PENDING: Final = 64
"""Inputs that wait for the engine; a client that sends more of them loses the pipe."""


class Prediction:
    """The two pipes of a predict."""

    def __init__(
        self,
        device: Host,
        outputs: PipeArgument,
        tensor_bytes: int,
        run: Callable[["Prediction", bytes], None],
        ended: Callable[["Prediction", str], None],
    ) -> None:
        """Run each input of `tensor_bytes` float32 bytes; `ended` is called once, with an error or ""."""
        self._device = device
        self._tensor_bytes = tensor_bytes
        self._run = run
        self._ended = ended
        self._buffer = bytearray()
        self._pending = 0
        self._closing = False
        self._stopped = False
        self._complaint = ""
        self._out: OutPipe = device.open_out_pipe(outputs, self._end)
        self.port: Final = device.pipes.open(InPipe(self._take, self._close))
        self._timer = device.timers.after(IDLE, self._check_idle)
        if not self.port:
            self.abort("all ports are taken")

    @property
    def is_alive(self) -> bool:
        return self._out.is_alive and not self._stopped

    def finish_run(self, floats: bytes) -> None:
        """Send the result of a run."""
        if self._stopped:
            return
        self._pending -= 1
        if not self._out.write(floats) and self._out.is_alive:
            self.abort("predict: the client takes its results too slowly")
        elif self._closing and not self._pending:
            self._out.close()

    def stop(self) -> None:
        """Close both pipes behind the results so far: a run has failed, or the model is gone."""
        self._device.pipes.close(self.port)
        self._stopped = True
        self._out.close()

    def abort(self, complaint: str = "") -> None:
        self._complaint = complaint
        self._out.abort()

    def _take(self, data: bytes) -> None:
        self._timer.cancel()
        self._timer = self._device.timers.after(IDLE, self._check_idle)
        self._buffer += data
        while self.is_alive and len(self._buffer) >= self._tensor_bytes:
            if self._pending == MOST_PENDING:
                self.abort(f"predict: more than {MOST_PENDING} inputs wait for the engine")
                return
            floats = bytes(self._buffer[: self._tensor_bytes])
            del self._buffer[: self._tensor_bytes]
            self._pending += 1
            self._run(self, floats)

    def _close(self) -> None:
        if self._buffer:
            self._complaint = (
                f"predict: {len(self._buffer)} bytes of an input of {self._tensor_bytes} were left over"
            )
        self._closing = True
        if not self._pending:
            self._out.close()

    def _check_idle(self) -> None:
        if self._device.has_neighbor(self._out.target.device):
            self._timer = self._device.timers.after(IDLE, self._check_idle)
        else:
            self.abort("predict: nothing came for 60 s")

    def _end(self) -> None:
        self._timer.cancel()
        self._device.pipes.close(self.port)
        self._ended(self, self._complaint)
