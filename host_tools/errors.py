"""Errors of the host library: one family, `HostError`, for the way to the device and for its answers.

The status bits of a failed command follow "XCORE AI server: numbers and wire behavior", section Commands.
Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import errno
from typing import Final

from aisrv.protocol.commands import STATUS_ERRORS, Status, command_name
from aisrv.values.printable import PrintableError


class HostError(PrintableError):
    """Anything that goes wrong between a host program and an AI server."""


class BadAddressError(HostError, ValueError):
    """A device address (`scheme:spec`) or server address that means nothing, or whose scheme is unknown."""


class DeviceNotFound(HostError):
    """No device answers at the address, or its server does not give it away."""


class UnknownSlave(DeviceNotFound):
    """The SPI link server has no slave of that name."""


class DeviceAccessDenied(HostError):
    """The operating system does not let this user open the device."""


class DeviceBusy(HostError):
    """Another program has the device."""


class DeviceGone(HostError):
    """The device went away: unplugged, switched off, or its server ended."""


class TransferError(HostError):
    """A transfer failed, or brought bytes that the protocol does not allow."""

    writes_done = 0
    """Number of transfers of an exchange that had ended well before."""

    def __init__(self, message: str, *, status: int = 0, transferred: int = 0) -> None:
        """Say what failed; `status` is a negative errno value of Linux or 0, `transferred` is in bytes."""
        super().__init__(message)
        self.status = status
        self.transferred = transferred


class TransferStall(TransferError):
    """A transfer ended with a stall: its endpoint is halted, or refused the control request.

    The client raises a `CommandError` where the device halted both endpoints, as for a command that failed.
    """

    def __init__(self, activity: str, transferred: int = 0) -> None:
        """Name the activity that the stall ended, such as "reading"; `transferred` is in bytes."""
        after = f" after {transferred} bytes" if transferred else ""
        super().__init__(f"{activity}: the transfer ended with a stall{after}", transferred=transferred)
        self.status = -errno.EPIPE


class TransactionTooLong(TransferError):
    """An SPI transaction has more bytes than this machine's driver takes at once; nothing was sent."""


class TransferTimeout(HostError):
    """A transfer was not done in time; the client's next command puts the wire in order again."""

    def __init__(self, message: str, transferred: int = 0) -> None:
        """Say what took too long; `transferred` are the bytes that are known to have moved."""
        super().__init__(message)
        self.transferred = transferred


class UnsupportedCommand(HostError):
    """A command, an engine or a tensor that the way to the device has no place for; nothing was sent."""


class TensorError(HostError):
    """A file that does not fit the tensor it is meant for, or a model file that cannot be read."""


class NotRunError(HostError):
    """Results were asked for before any inference."""


class CommandError(HostError):
    """The device refused a command or failed in it.

    `command`, `engine` and `tensor` are those of the command packet; `status` has the error bits, none where
    the device did not say; `log` is the device's debug log, empty where it gave none.
    """

    advice = "the device gave no reason"

    def __init__(
        self, command: int, engine: int = 0, tensor: int = 0, status: Status = Status.OKAY, log: str = ""
    ) -> None:
        self.command = command
        self.engine = engine
        self.tensor = tensor
        self.status = status
        self.log = log
        super().__init__(self._describe())

    def _describe(self) -> str:
        where = f"{command_name(self.command)} failed on engine {self.engine}, tensor {self.tensor}"
        bits = f" ({self.status.name or hex(self.status)})" if self.status else ""
        last = self.log.strip().rpartition("\n")[2].strip()
        return f"{where}{bits}: {self.advice}" + (f"; its log ends with: {last}" if last else "")


class UnexplainedError(CommandError):
    """A command failed whose status bits were not read, as reading clears them."""

    advice = "the device refuses it, or failed in it"


class NoModelError(CommandError):
    """ERROR_NO_MODEL: the command needs a model and none is loaded."""

    advice = "no model is loaded; load one first"


class ModelError(CommandError):
    """ERROR_MODEL_ERR: the model is malformed, has operators the engine lacks, or needs more memory."""

    advice = "the engine cannot take this model"


class InferenceError(CommandError):
    """ERROR_INFER_ERR: the inference itself failed."""

    advice = "the inference failed"


class BadCommandError(CommandError):
    """ERROR_BAD_CMD: an unknown command, tensor or engine, or data of the wrong size."""

    advice = "the device refuses the command, its tensor or engine number, or the size of its data"


class NoEngineError(BadCommandError):
    """The device refuses every command for this engine, GET_STATUS too: it has no such engine."""

    advice = "the device has no such engine"


COMMAND_ERRORS: Final[dict[Status, type[CommandError]]] = {
    Status.ERROR_NO_MODEL: NoModelError,
    Status.ERROR_MODEL_ERR: ModelError,
    Status.ERROR_INFER_ERR: InferenceError,
    Status.ERROR_BAD_CMD: BadCommandError,
}
"""Which error a status bit becomes; where several bits are set, the first in this order."""


def command_error(command: int, engine: int, tensor: int, status: int, log: str = "") -> CommandError:
    """Return the error for a command that ended with these bits; a plain `CommandError` for unknown ones."""
    bits = Status(status)
    kind = next((error for bit, error in COMMAND_ERRORS.items() if bits & bit), CommandError)
    return kind(command, engine, tensor, bits & STATUS_ERRORS or bits, log)
