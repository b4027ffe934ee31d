"""What goes wrong over USB/IP as the errors that pyusb's libusb1 backend raises, with libusb's codes.

Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from usb.backend import libusb1
from usb.core import USBError, USBTimeoutError

from aisrv.protocol.usbip import UrbStatus
from host_tools.errors import DeviceBusy, HostError, TransferError, TransferTimeout

if TYPE_CHECKING:
    from collections.abc import Iterator

_ERRORS: Final[dict[int, tuple[str, int]]] = {
    libusb1.LIBUSB_ERROR_IO: ("Input/output error", errno.EIO),
    libusb1.LIBUSB_ERROR_INVALID_PARAM: ("Invalid parameter", errno.EINVAL),
    libusb1.LIBUSB_ERROR_NO_DEVICE: ("No such device (it may have been disconnected)", errno.ENODEV),
    libusb1.LIBUSB_ERROR_NOT_FOUND: ("Entity not found", errno.ENOENT),
    libusb1.LIBUSB_ERROR_BUSY: ("Resource busy", errno.EBUSY),
    libusb1.LIBUSB_ERROR_TIMEOUT: ("Operation timed out", errno.ETIMEDOUT),
    libusb1.LIBUSB_ERROR_OVERFLOW: ("Overflow", errno.EOVERFLOW),
    libusb1.LIBUSB_ERROR_PIPE: ("Pipe error", errno.EPIPE),
}
"""Text and errno of libusb's codes, as `libusb_strerror` and pyusb's libusb1 backend give them."""

_CODE_OF_STATUS: Final[dict[int, int]] = {
    UrbStatus.STALL: libusb1.LIBUSB_ERROR_PIPE,
    UrbStatus.OVERFLOW: libusb1.LIBUSB_ERROR_OVERFLOW,
}
"""What libusb makes of a request's status; every other one is an input/output error to it."""


def usb_error(code: int) -> USBError:
    """Return the exception that pyusb's libusb1 backend raises for one of libusb's error codes."""
    text, number = _ERRORS[code]
    kind = USBTimeoutError if code == libusb1.LIBUSB_ERROR_TIMEOUT else USBError
    return kind(text, code, number)


def libusb_code(error: HostError) -> int:
    """Return libusb's code for an error of the host library."""
    if isinstance(error, TransferTimeout):
        return int(libusb1.LIBUSB_ERROR_TIMEOUT)
    if isinstance(error, TransferError):
        return int(_CODE_OF_STATUS.get(error.status, libusb1.LIBUSB_ERROR_IO))
    if isinstance(error, DeviceBusy):
        return int(libusb1.LIBUSB_ERROR_BUSY)
    return int(libusb1.LIBUSB_ERROR_NO_DEVICE)


@contextmanager
def libusb_errors() -> Iterator[None]:
    """Raise what goes wrong over USB/IP as pyusb's libusb1 backend would."""
    try:
        yield
    except HostError as error:
        raise usb_error(libusb_code(error)) from error
