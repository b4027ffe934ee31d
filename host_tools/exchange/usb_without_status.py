"""The commands of one engine over USB for programs that only look: none of them reads the status.

GET_STATUS clears the error bits, which are for the program that runs the device, or for whoever looks for
them later. A failed command is told by its halts, and by the debug log, which changes nothing.
"""

from aisrv.protocol.commands import Command, Status
from host_tools.errors import CommandError, TransferStall, UnexplainedError, command_error
from host_tools.exchange.usb import Exchange, log_text


class ExchangeWithoutStatus(Exchange):
    """As `Exchange`, but a failure of the classic framing is an `UnexplainedError`."""

    def _explain(self, command: int, tensor: int, status: int | None = None) -> CommandError | TransferStall:
        if status is None and (stall := self._leave_halts(command)) is not None:
            return stall
        log = log_text(self._ask(Command.GET_DEBUG_LOG) or b"")
        self._in_step = True
        if status is None:
            return UnexplainedError(command, self.engine, tensor, Status.OKAY, log)
        return command_error(command, self.engine, tensor, status, log)
