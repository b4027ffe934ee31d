"""Fixtures that give any test a running virtual device; pytest finds them by themselves.

| fixture | is |
|---|---|
| `aisrv_board` | the board of the device; override it, or mark a test with `@pytest.mark.aisrv(...)` |
| `aisrv_device` | the running device, on a thread of this process (`aisrv.attach.background`) |
| `aisrv_server` | the host library's `AiServer`, connected to it in process |
| `aisrv_usbip` | its address for a host program, `usbip:127.0.0.1:PORT` |
| `aisrv_evaluate` | a function that evaluates a model on a data set: `aisrv evaluate` in a test |
| `aisrv_jacdac` | the address of its Jacdac bus, `127.0.0.1:PORT`; puts the board on one |

The mark takes `board`, which is a shipped board's name, the path of a board file from the test's folder, or a
`Board`; and the fields of `Board`, with `engines` as a number or as `EngineSpec` values. The host drives the
device by `aisrv_server` or by `aisrv_usbip`, not by both in one test.

`pytest --aisrv-device ADDRESS` runs the same tests on the device at an address of the host tools.
`aisrv_server` and `aisrv_usbip` are that device then, and `aisrv_jacdac` is its bus if the address is one.
`aisrv_device`, the inside of a virtual device, skips the test. A mark does not change a real board.
"""

from contextlib import ExitStack
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest

from aisrv.values.addons import load, offered, ours

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from aisrv.attach.background import BackgroundBus, BackgroundDevice
    from aisrv.board import Board
    from host_tools.client import AiServer
    from host_tools.transports.transport import Buffer

MARK: Final = "aisrv"
OPTION: Final = "--aisrv-device"

pytest_plugins: Final = [each.fixtures for each in ours() if each.fixtures]
"""Those of add-ons."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that names a device to run the tests on."""
    parser.getgroup("aisrv").addoption(
        OPTION,
        metavar="ADDRESS",
        help="Run tests on the device at this address, as usb or usbip:HOST:PORT, in place of virtual ones.",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the mark, and check the address of a device."""
    config.addinivalue_line("markers", f"{MARK}(**board): the board of this test's virtual device")
    address = config.getoption(OPTION)
    if address is not None:
        from host_tools.errors import BadAddressError
        from host_tools.transports.schemes import check_scheme

        try:
            check_scheme(address)
        except BadAddressError as error:
            raise pytest.UsageError(f"{OPTION}: {error}") from None


def pytest_report_header(config: pytest.Config) -> str | None:
    """Say which device the tests run on, where one is named."""
    address = config.getoption(OPTION)
    return None if address is None else f"aisrv: the tests run on {address}"


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


def fail(message: object) -> NoReturn:
    """End the test with an error of one line, whatever it comes from."""
    raise pytest.fail.Exception(" ".join(str(message).split()), pytrace=False) from None


def _check_mark(mark: pytest.Mark) -> None:
    """Fail for an argument that no board has, with the nearest that one has."""
    from difflib import get_close_matches

    from aisrv.board import Board

    if mark.args:
        fail(f"@pytest.mark.{MARK} takes the fields of Board by name, not {', '.join(map(repr, mark.args))}")
    known = ["board", *(each.name for each in fields(Board))]
    for name in mark.kwargs:
        if name not in known:
            near = get_close_matches(name, known, 1)
            meant = f"did you mean {near[0]}?" if near else f"there are: {', '.join(known)}"
            fail(f"@pytest.mark.{MARK}: a board has no {name!r}; {meant}")


def _marked_board(settings: "Mapping[str, Any]", folder: "Path") -> "Board":
    """Return the board that a mark's arguments describe, with files from `folder`; BoardError, TypeError."""
    from os import PathLike, fspath
    from pathlib import Path

    from aisrv.board import Board
    from aisrv.board.catalog import BOARDS, find_board
    from aisrv.device.engine_kinds import check_engine_kinds

    changes = dict(settings)
    base = changes.pop("board", Board())
    if isinstance(base, str | PathLike):
        name = fspath(base)
        base = find_board(name if name in BOARDS or not Path(name).suffix else str(folder / name))
    if not isinstance(base, Board):
        raise TypeError(f"board is a shipped board's name, the path of a board file or a Board, not {base!r}")
    if isinstance(changes.get("engines"), int):
        one = replace(base.engines[0], chain_to=None, sensor=None)
        changes["engines"] = tuple(
            replace(one, tile=number % base.tiles) for number in range(changes["engines"])
        )
    board = replace(base, **changes)
    check_engine_kinds(board)
    return board


def _asked_tables(fixtures: "Iterable[str]") -> "Iterator[str]":
    """Yield the tables of add-ons whose fixture a test has: `aisrv_NAME` puts NAME on its board."""
    for name, place in offered("tables").items():
        if f"aisrv_{name}" in fixtures:
            yield place


@pytest.fixture
def aisrv_board(request: pytest.FixtureRequest) -> "Board":
    """Return the board of the test's mark, or the default one."""
    from aisrv.board import BoardError

    mark = request.node.get_closest_marker(MARK)
    if mark is not None:
        _check_mark(mark)
    try:
        board = _marked_board(mark.kwargs if mark else {}, request.path.parent)
        for place in _asked_tables(request.fixturenames):
            kind = load(place)
            if board.part(kind) is None:
                board = board.with_part(kind, kind())
    except (BoardError, TypeError) as error:
        fail(f"@pytest.mark.{MARK}: {error}")
    return board


@pytest.fixture
def aisrv_device(request: pytest.FixtureRequest) -> "Iterator[BackgroundDevice]":
    """Run a virtual device for the time of the test; skip it where the tests run on another."""
    from aisrv.attach.background import BackgroundDevice

    address = request.config.getoption(OPTION)
    if address is not None:
        pytest.skip(f"aisrv_device is the inside of a virtual device, and the tests run on {address}")
    board = request.getfixturevalue("aisrv_board")
    with ExitStack() as stack:
        try:
            device = stack.enter_context(BackgroundDevice(board))
        except Exception as error:
            fail(_reason(error))
        yield device


def _reason(error: Exception) -> str:
    """Return why a device does not start; raise what nobody expects of one."""
    from aisrv.board import BoardError
    from aisrv.listeners.failures import DeviceFailed, first_cause
    from aisrv.sensors.image.frame import SourceError
    from aisrv.xcore.traps import XcoreError
    from flash_server.errors import FlashError

    cause = first_cause(error)
    if not isinstance(cause, BoardError | DeviceFailed | FlashError | OSError | SourceError | XcoreError):
        raise error
    return "; ".join((str(cause), *getattr(cause, "__notes__", ())))


@pytest.fixture
def aisrv_server(request: pytest.FixtureRequest) -> "Iterator[AiServer]":
    """Connect the host library to the device, in process, or to the one that the tests run on."""
    from host_tools.client import AiServer
    from host_tools.errors import HostError

    address = request.config.getoption(OPTION)
    if address is None:
        from aisrv.attach.background import BackgroundBus

        transport = InProcessTransport(BackgroundBus(request.getfixturevalue("aisrv_device")))
        with AiServer(transport) as server:
            yield server
        return
    try:
        server = AiServer.open(address)
    except HostError as error:
        fail(f"{OPTION} {address}: {error}")
    with server:
        yield server


@pytest.fixture
def aisrv_usbip(request: pytest.FixtureRequest) -> str:
    """Return the device's address for host programs and `AiServer.open`."""
    address: str | None = request.config.getoption(OPTION)
    return address or f"usbip:{request.getfixturevalue('aisrv_device').usbip_address}"
