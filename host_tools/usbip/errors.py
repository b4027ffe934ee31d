"""What can go wrong between a host program and a USB/IP server: one family of exceptions."""

from __future__ import annotations

from aisrv.protocol.usbip import UrbStatus


class UsbipClientError(Exception):
    """What the client raises, but for the ValueError of a bad argument."""


class ServerError(UsbipClientError):
    """No server answers at the address, or what answers does not speak USB/IP."""


class ImportRefusedError(UsbipClientError):
    """The server does not give the device away."""


class DeviceBusyError(ImportRefusedError):
    """Another client has the device."""


class UnknownDeviceError(ImportRefusedError):
    """The server has no device of that bus id."""


class DeviceGoneError(UsbipClientError):
    """The connection ended: the server went away, talked nonsense or stopped answering, or it was closed."""


class TransferError(UsbipClientError):
    """A request ended with a status other than 0; `status` is a negative errno value of Linux."""

    outcome = ""
    """How the message puts the status, where it has a name of its own."""

    def __init__(self, endpoint: int, status: int, transferred: int) -> None:
        name = UrbStatus(status).name if status in UrbStatus._value2member_map_ else "unknown"
        outcome = self.outcome or f"status {status} ({name})"
        super().__init__(f"endpoint {endpoint:#04x}: {outcome} after {transferred} bytes of this request")
        self.endpoint = endpoint
        self.status = status
        self.transferred = transferred
        self.requests_done = 0
        """How many requests that were started with this one had ended well before it."""


class StallError(TransferError):
    """A transfer ended with a stall: the endpoint is halted, or refused the control request."""

    outcome = "the transfer ended with a stall"


class TransferTimeoutError(UsbipClientError):
    """A request was not done in time and has been taken back; `transferred` bytes are known to have moved."""

    def __init__(self, endpoint: int, transferred: int) -> None:
        super().__init__(f"endpoint {endpoint:#04x}: timed out after {transferred} bytes")
        self.endpoint = endpoint
        self.transferred = transferred
