"""Fixtures that give any test a running virtual device; pytest finds them by themselves.

| fixture | is |
|---|---|
| `aisrv_board` | the board of the device; override it, or mark a test with `@pytest.mark.aisrv(...)` |
| `aisrv_device` | the running device, on a thread of this process (`aisrv.attach.background`) |
| `aisrv_server` | the host library's `AiServer`, connected to it in process |
| `aisrv_usbip` | its address for a host program, `usbip:127.0.0.1:PORT` |
| `aisrv_jacdac` | the address of its Jacdac bus, `127.0.0.1:PORT`; puts the board on one |

The mark takes the fields of `Board`, and `engines` as a number or as `EngineSpec` values. The host drives the
device by `aisrv_server` or by `aisrv_usbip`, not by both in one test.
"""

from dataclasses import fields, replace
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from aisrv.attach.background import BackgroundBus, BackgroundDevice
    from aisrv.board import Board
    from host_tools.client import AiServer
    from host_tools.transports.transport import Buffer

MARK = "aisrv"


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark."""
    config.addinivalue_line("markers", f"{MARK}(**board): the board of this test's virtual device")


class InProcessTransport:
    """A transport of the host library directly to the endpoints of a device in this process."""

    def __init__(self, bus: "BackgroundBus") -> None:
        self._bus = bus

    def write(self, data: "Buffer", timeout: float | None) -> None:
        """Send `data` within `timeout` seconds."""
        with _as_host_errors():
            self._bus.write(bytes(data), timeout)

    def read(self, length: int, timeout: float | None) -> bytes:
        """Receive packets up to a short one, or `length` bytes, within `timeout` seconds."""
        with _as_host_errors():
            return self._bus.read(length, timeout)

    def exchange(self, writes: "Sequence[Buffer]", length: int, timeout: float | None) -> bytes:
        """Do several writes and then a read of `length` bytes, each within `timeout` seconds."""
        from host_tools.transports.transport import one_after_another

        return one_after_another(self, writes, length, timeout)

    def halted(self) -> frozenset[int]:
        """Return the endpoints that are halted."""
        from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT

        with _as_host_errors():
            return frozenset(each for each in (ENDPOINT_OUT, ENDPOINT_IN) if self._bus.is_halted(each))

    def clear_halts(self) -> None:
        """Clear the halt of both endpoints."""
        from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT

        with _as_host_errors():
            self._bus.clear_halt(ENDPOINT_OUT)
            self._bus.clear_halt(ENDPOINT_IN)

    def reset(self) -> None:
        """Reset the bus and configure the device."""
        with _as_host_errors():
            self._bus.reset()

    def close(self) -> None:
        """Do nothing: the device belongs to the test."""


class _as_host_errors:  # noqa: N801 - reads as a statement
    """Turn what the device's side raises into the host library's errors."""

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        import trio

        from aisrv.attach.inprocess import TransferFailed
        from host_tools.errors import TransferError, TransferStall, TransferTimeout
        from phy.usb.urb import TransferStatus

        if isinstance(error, trio.TooSlowError):
            raise TransferTimeout("the device did not answer in time") from error
        if isinstance(error, TransferFailed):
            if error.status is TransferStatus.STALL:
                raise TransferStall("in process") from error
            raise TransferError(str(error)) from error


def _check_mark(mark: pytest.Mark) -> None:
    """Raise pytest.UsageError for an argument that no board has, with the nearest that one has."""
    from difflib import get_close_matches

    from aisrv.board import Board

    if mark.args:
        raise pytest.UsageError(
            f"@pytest.mark.{MARK} takes the fields of Board by name, not {', '.join(map(repr, mark.args))}"
        )
    known = [each.name for each in fields(Board)]
    for name in mark.kwargs:
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            raise pytest.UsageError(f"@pytest.mark.{MARK}: a board has no {name!r}; {meant}")


@pytest.fixture
def aisrv_board(request: pytest.FixtureRequest) -> "Board":
    """Return the board of the test's mark, or the default one."""
    from aisrv.board import Board, BoardError, EngineSpec, JacdacSpec

    mark = request.node.get_closest_marker(MARK)
    settings = dict(mark.kwargs) if mark else {}
    if mark is not None:
        _check_mark(mark)
    engines = settings.get("engines")
    if isinstance(engines, int):
        settings["engines"] = tuple(EngineSpec(tile=number % 2) for number in range(engines))
    if "aisrv_jacdac" in request.fixturenames:
        settings.setdefault("jacdac", JacdacSpec())
    try:
        return replace(Board(), **settings)
    except (BoardError, TypeError) as error:
        raise pytest.UsageError(f"@pytest.mark.{MARK}: {error}") from error


@pytest.fixture
def aisrv_device(aisrv_board: "Board") -> "Iterator[BackgroundDevice]":
    """Run a virtual device for the time of the test."""
    from aisrv.attach.background import BackgroundDevice

    with BackgroundDevice(aisrv_board) as device:
        yield device


@pytest.fixture
def aisrv_server(aisrv_device: "BackgroundDevice") -> "Iterator[AiServer]":
    """Connect the host library to the device, in process."""
    from aisrv.attach.background import BackgroundBus
    from host_tools.client import AiServer

    with AiServer(InProcessTransport(BackgroundBus(aisrv_device))) as server:
        yield server


@pytest.fixture
def aisrv_usbip(aisrv_device: "BackgroundDevice") -> str:
    """Return the device's address for host programs and `AiServer.open`."""
    return f"usbip:{aisrv_device.usbip_address}"


@pytest.fixture
def aisrv_jacdac(aisrv_device: "BackgroundDevice") -> str:
    """Return `HOST:PORT` of the TCP server of the device's Jacdac bus."""
    return aisrv_device.jacdac_address
