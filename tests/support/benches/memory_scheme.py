"""The scheme `memory` of device addresses, for a device that a test makes."""

import sys
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from aisrv.values.addons import Scheme
from host_tools.transports.schemes import SCHEMES
from host_tools.transports.transport import DeviceInfo
from host_tools.transports.usb import UsbTransport


def add_memory_scheme(monkeypatch: pytest.MonkeyPatch, open_memory: Callable[[str], UsbTransport]) -> None:
    """Have `open_memory` open what is at addresses of the scheme, which lists one device."""
    module = SimpleNamespace(
        open_memory=open_memory, list_memory=lambda _: [DeviceInfo("memory", "xAISRV", "XMOS")]
    )
    monkeypatch.setitem(sys.modules, "host_tools.transports.memory", module)
    monkeypatch.setitem(SCHEMES, "memory", Scheme("memory", "host_tools.transports.memory"))
