"""Host names that no codec takes, wherever one is given: the error of the layer, with the name."""

import re
from collections.abc import Callable, Sequence

import pytest

from aisrv.listeners.stream_server import StreamServer
from aisrv.values.printable import printable
from flash_server.chip.programmer import Programmer
from flash_server.errors import ProgrammerError
from host_tools.errors import BadAddressError
from host_tools.transports.schemes import list_devices, open_transport, schemes
from host_tools.transports.server_address import check_address, parse_address
from tests.support.programs import AISRV, FLASH, HOST, run_process

NAMES = ("a..b", "a" * 64, "\N{ZERO WIDTH JOINER}" * 64)
"""Of these the resolver raises UnicodeError, which is no OSError."""

ADDRESSES = {"usbip": "usbip:{}:3240", "spi": "spi:0.0@{}:5000", "jacdac": "jacdac:{}:8082"}


@pytest.mark.parametrize("name", [*NAMES, "\udcff"])
@pytest.mark.parametrize("takes", [parse_address, check_address])
def test_address(takes: Callable[[str], object], name: str) -> None:
    with pytest.raises(BadAddressError, match="no host has such a name"):
        takes(f"{name}:3240")


def test_every_scheme_with_a_host_is_here() -> None:
    assert ADDRESSES.keys() == {name for name, scheme in schemes().items() if "HOST" in scheme.form}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("does", [open_transport, list_devices])
@pytest.mark.parametrize("scheme", ADDRESSES)
def test_device(scheme: str, does: Callable[[str], object], name: str) -> None:
    with pytest.raises(BadAddressError, match="no host has such a name"):
        does(ADDRESSES[scheme].format(name))


@pytest.mark.parametrize("name", NAMES)
def test_programmer(name: str) -> None:
    with pytest.raises(ProgrammerError, match=f"no serprog server at {re.escape(printable(name))}:5040"):
        Programmer.connect(f"{name}:5040")


@pytest.mark.parametrize("name", NAMES)
async def test_listener(name: str) -> None:
    class Server(StreamServer):
        PEER = "peer"
        PROTOCOL_ERROR = ValueError

        async def _serve_peer(self, *_: object) -> None:
            """Nobody comes."""

    with pytest.raises(OSError, match="no host has such a name"):
        await Server().serve(name)


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([*AISRV, "run", "--port", "0", "--host", "a..b"], id="run"),
        pytest.param([*FLASH, "read", "--device", "a..b:5040", "--output", "out"], id="flash"),
        pytest.param([*HOST, "--device", "usbip:a..b:3240", "info"], id="host"),
        pytest.param([*HOST, "--device", "jacdac:a..b:8082", "jacdac", "watch"], id="jacdac"),
    ],
)
def test_command(command: Sequence[str]) -> None:
    done = run_process(command)
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert "a..b" in done.stderr
