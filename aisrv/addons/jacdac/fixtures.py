"""The fixture of tests on a Jacdac bus."""

from typing import TYPE_CHECKING, Final

import pytest

from aisrv.pytest_plugin import OPTION

if TYPE_CHECKING:
    from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer
    from aisrv.attach.background import BackgroundDevice
    from aisrv.device.device import Device

_JACDAC: Final = "jacdac:"


@pytest.fixture
def aisrv_jacdac(request: pytest.FixtureRequest) -> str:
    """Return `HOST:PORT` of the TCP server of the device's Jacdac bus; skip a test on a device without."""
    address: str | None = request.config.getoption(OPTION)
    if address is None:
        device: BackgroundDevice = request.getfixturevalue("aisrv_device")
        return device.serve(_tcp_server)
    if not address.startswith(_JACDAC):
        pytest.skip(f"aisrv_jacdac is an address {_JACDAC}HOST:PORT, and the tests run on {address}")
    return address.removeprefix(_JACDAC)


def _tcp_server(device: "Device") -> "JacdacTcpServer":
    from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer
    from aisrv.addons.jacdac.device import bus_of

    return JacdacTcpServer(bus_of(device))
