"""An unexpected error in one device of several ends that device: hosts see it leave, the others go on."""

import logging
import signal
import textwrap
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.testing

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.attach.preload.server import serve_preload
from aisrv.attach.usbip.server import UsbipServer
from aisrv.board import Board, FlashSpec, SensorSpec, TaskSpec
from aisrv.cli.serving import DeviceSet, Listening, Service, first_error, serve_devices
from aisrv.device import parts
from aisrv.listeners.failures import DeviceFailed, Failures
from aisrv.protocol.commands import ENDPOINT_IN, Command
from aisrv.protocol.engine_channel import get_command
from aisrv.protocol.usb_descriptors import SetupPacket, StandardRequest
from aisrv.sensors.image.frame import Encoding, RawFrame
from host_tools.client import AiServer
from host_tools.errors import DeviceGone, HostError
from host_tools.transports.usbip.connection import Connection
from phy.local import aisrv_local_acquire_single
from phy.spi.bus import SpiBus, SpiTransfer
from phy.usb.urb import TransferStatus
from tests.support.programs import AISRV, Started, start_process

FAULTY = TaskSpec("faulty", "tests.listeners.test_failures:fail_when_told", tile=1)

told: list[trio.Event] = []
"""One for each task that waits to fail."""


async def fail_when_told() -> None:
    """A task of a board that has an error of the user's in it."""
    event = trio.Event()
    told.append(event)
    await event.wait()
    raise KeyError("missing")


LINE = fail_when_told.__code__.co_firstlineno + 5
PLACE = f"in the task 'faulty' of the board, {__name__}:fail_when_told, line {LINE} of test_failures.py"


@pytest.fixture(autouse=True)
def _none_told() -> None:
    told.clear()


@asynccontextmanager
async def failing(*boards: Board) -> AsyncIterator[Service]:
    """Serve devices of which the first fails with a KeyError; it must be reported at the end."""
    reported = ""
    try:
        with trio.fail_after(60):
            async with serve_devices(DeviceSet(boards, on_trap="raise"), Listening(spi=0)) as service:
                yield service
    except* DeviceFailed as errors:
        reported = first_error(errors)
    assert reported == f"LAB-1 failed: {PLACE}: KeyError: 'missing'"


def ask(address: str) -> str:
    """The status of a device, or the error of a host that is told that it is gone."""
    try:
        with AiServer.open(address, timeout=20) as server:
            server.status()
    except HostError as error:
        return str(error)
    return "fine"


SET_CONFIGURATION = bytes(SetupPacket(0, StandardRequest.SET_CONFIGURATION, 1, 0, 0))
BOARDS = Board(serial="LAB-1", tasks=(FAULTY,)), Board(serial="LAB-2"), Board(serial="LAB-3")


async def test_hosts_over_usbip_lose_one_device_and_keep_the_others(caplog: pytest.LogCaptureFixture) -> None:
    async with failing(*BOARDS) as service:
        places = [f"usbip:{service.usbip}/1-{number}" for number in (1, 2, 3)]
        lost = InProcessHost(service.ports.usb[0])
        await lost.plug_in()
        told[0].set()
        with pytest.raises(TransferFailed) as failure:
            await lost.read(512)
        assert failure.value.status is TransferStatus.SHUTDOWN
        first, *others = [await trio.to_thread.run_sync(ask, place) for place in places]
        assert "1-1" in first
        assert others == ["fine", "fine"]
    (record,) = [each for each in caplog.records if each.levelno == logging.ERROR]
    assert record.getMessage() == f"-v shows the frames; LAB-1 failed: {PLACE}: KeyError: 'missing'"
    assert record.exc_info is None


@pytest.mark.plain_time("its tasks have begun before any time has passed")
async def test_frames_of_an_error_are_in_the_log_on_request_and_the_reason_is_last(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with caplog.at_level(logging.INFO, "aisrv.device.device"):
        async with failing(BOARDS[0]) as service:
            told[0].set()
            await service.ports.usb[0].wait_unplugged()
    frames, reason = [each for each in caplog.records if each.name == "aisrv.device.device"]
    assert frames.exc_info is not None
    assert isinstance(frames.exc_info[1], KeyError)  # and no group around it
    assert reason.getMessage() == f"LAB-1 failed: {PLACE}: KeyError: 'missing'"


async def test_a_host_in_the_middle_of_a_transfer_sees_the_device_leave() -> None:
    async with failing(*BOARDS) as service:

        def wait_for_an_answer() -> str:
            with Connection.open(service.usbip, "1-1") as connection:
                connection.control_out(SET_CONFIGURATION)
                with pytest.raises(DeviceGone) as error:
                    connection.bulk_in(ENDPOINT_IN, 512)
            return str(error.value)

        async with trio.open_nursery() as nursery:
            results: list[str] = []

            async def host() -> None:
                results.append(await trio.to_thread.run_sync(wait_for_an_answer))

            nursery.start_soon(host)
            while not service.ports.devices[0].usb.in_endpoint.pending:
                await trio.testing.wait_all_tasks_blocked(0.01)
            told[0].set()
        assert results == [
            "reading from endpoint 0x81: the device is gone, status -108 (SHUTDOWN) after 0 bytes"
        ]


async def test_preload_clients_lose_one_device_and_keep_the_other() -> None:
    async with failing(*BOARDS[:2]) as service, trio.open_nursery() as nursery:
        preload = await nursery.start(serve_preload, service.ports.usb)
        told[0].set()
        await service.ports.usb[0].wait_unplugged()
        await trio.testing.wait_all_tasks_blocked(0.01)
        assert [node.unplugged for node in preload.nodes] == [True, False]
        status, _ = await get_command(service.ports.devices[1].local[0], Command.GET_ID)
        assert status == 0
        nursery.cancel_scope.cancel()


@pytest.mark.plain_time("its tasks have begun before any time has passed")
async def test_spi_master_reads_ones_from_a_device_that_failed() -> None:
    async with failing(*BOARDS[:2]) as service:
        told[0].set()
        await service.ports.usb[0].wait_unplugged()
        (answer,) = await service.ports.spi["0.0"].message([SpiTransfer(bytes(4))])
        assert answer == b"\xff" * 4


async def test_spi_master_that_waits_gets_ones() -> None:
    bus = SpiBus()
    answers = []

    async def ask_slave() -> None:
        answers.append(await bus.transfer(bytes(3)))

    async with trio.open_nursery() as nursery:
        nursery.start_soon(ask_slave)
        await trio.testing.wait_all_tasks_blocked()
        bus.fail()
    assert answers == [b"\xff" * 3]


@pytest.mark.plain_time("its tasks have begun before any time has passed")
async def test_the_last_device_that_fails_ends_the_process() -> None:
    async with failing(BOARDS[0]):
        told[0].set()
        await trio.sleep_forever()


class BrokenSource:
    """A source with an error in it."""

    width, height, encoding = 4, 4, Encoding.RGB

    async def frame(self) -> RawFrame:
        raise ZeroDivisionError("no light")


async def test_error_in_a_sensor_source_ends_its_device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "open_sensor", lambda *_: BrokenSource())
    boards = Board(serial="LAB-1", sensor=SensorSpec(tile=0, source="pattern:bars")), Board(serial="LAB-2")
    reported = ""
    try:
        with trio.fail_after(60):
            async with serve_devices(DeviceSet(boards, on_trap="raise"), Listening()) as service:
                first, second = service.ports.devices
                async with trio.open_nursery() as nursery:

                    async def acquire() -> None:
                        await aisrv_local_acquire_single(first.local[0], 0, 4, 0, 4, 4, 4)

                    nursery.start_soon(acquire)
                    await first.usb.wait_unplugged()
                    nursery.cancel_scope.cancel()
                assert (await get_command(second.local[0], Command.GET_ID))[0] == 0
    except* DeviceFailed as errors:
        reported = first_error(errors)
    assert reported == "LAB-1 failed: ZeroDivisionError: no light"


async def test_error_in_a_connection_ends_that_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    serve_import = UsbipServer._serve_import

    async def fail_for_the_first(server: UsbipServer, stream: trio.SocketStream, *args: object) -> None:
        if "1-1" in str(args[0]):
            raise ZeroDivisionError
        await serve_import(server, stream, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(UsbipServer, "_serve_import", fail_for_the_first)
    reported: list[str] = []
    try:
        async with serve_devices(DeviceSet(BOARDS[1:]), Listening()) as service:
            assert await trio.to_thread.run_sync(ask, f"usbip:{service.usbip}/1-1") != "fine"
            assert await trio.to_thread.run_sync(ask, f"usbip:{service.usbip}/1-2") == "fine"
    except* DeviceFailed as errors:
        reported.append(first_error(errors))
    assert len(reported) == 1
    assert "ZeroDivisionError" in reported[0]


def fail_twice() -> None:
    with Failures(logging.getLogger("tests")) as failures:
        with failures.contain("one"):
            raise ValueError("first")
        with failures.contain("another"):
            raise OSError("second")


def fail_within_and_after() -> None:
    with Failures(logging.getLogger("tests")) as failures:
        with failures.contain("one"):
            raise ValueError
        raise RuntimeError("of the block")


def test_failures_are_raised_at_the_end_only() -> None:
    with pytest.raises(ExceptionGroup) as raised:
        fail_twice()
    assert [str(each) for each in raised.value.exceptions] == [
        "one failed: ValueError: first",
        "another failed: OSError: second",
    ]


def test_failures_leave_another_error_of_the_block() -> None:
    with pytest.raises(RuntimeError, match="of the block"):
        fail_within_and_after()


TASK = """
    import trio
    from pathlib import Path
    starts = []

    async def task():
        starts.append(1)
        if len(starts) == 2:
            while not Path(__file__).with_name("told").exists():
                await trio.sleep(0.02)
            raise ValueError("a mistake of the user's")
"""


def _command(folder: Path, *options: str) -> list[str]:
    """The command that runs three devices, of which the task of the second one makes a mistake when told."""
    (folder / "mistaken.py").write_text(textwrap.dedent(TASK))
    board = folder / "board.toml"
    board.write_text('[[tasks]]\nname = "mistaken"\ntask = "mistaken:task"\n')
    devices = ("--devices", "3", "--serial", "LAB-")
    return [*AISRV, "run", "--port", "0", "--board", str(board), *devices, *options]


def _address(process: Started) -> str:
    assert process.stdout is not None
    return process.stdout.readline().removeprefix("aisrv: ready at ").split(",")[0].strip()


def test_error_in_a_task_halts_its_core_and_every_device_serves_on(tmp_path: Path) -> None:
    with start_process(_command(tmp_path)) as process:
        address = _address(process)
        (tmp_path / "told").touch()
        assert process.stderr is not None
        logged = ""
        while "ValueError: a mistake of the user's; the core is halted\n" not in logged:
            line = process.stderr.readline()
            assert line, logged
            logged += line
        assert [ask(f"{address}/1-{number}") for number in (1, 2, 3)] == ["fine"] * 3
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1  # a core has trapped
    assert "Error" not in errors
    assert "Traceback" not in logged
    assert "LAB-2: tile" in logged
    assert "ECALL (8): in the task 'mistaken' of the board, mistaken:task, line " in logged


def test_error_in_a_task_ends_its_device_with_on_trap_stop(tmp_path: Path) -> None:
    with start_process(_command(tmp_path, "--on-trap", "stop")) as process:
        address = _address(process)
        (tmp_path / "told").touch()
        deadline = time.monotonic() + 30
        while ask(f"{address}/1-2") == "fine" and time.monotonic() < deadline:
            time.sleep(0.05)
        assert [ask(f"{address}/1-{number}") == "fine" for number in (1, 2, 3)] == [True, False, True]
        assert process.poll() is None
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "Traceback" not in errors
    source = (tmp_path / "mistaken.py").read_text().splitlines()
    (line,) = [number for number, text in enumerate(source, 1) if "raise ValueError" in text]
    assert errors.rstrip().splitlines()[-1] == (
        "Error: LAB-2 failed: in the task 'mistaken' of the board, mistaken:task, "
        f"line {line} of mistaken.py: ValueError: a mistake of the user's"
    )


@pytest.mark.parametrize("fails_first", [False, True])
async def test_nobody_waits_for_the_flash_server_of_a_device_that_has_failed(fails_first: bool) -> None:
    board = Board(serial="LAB-1", tasks=(FAULTY,), flashes=(FlashSpec(),))
    async with failing(board, Board(serial="LAB-2")) as service:
        device, (_, reload) = service.ports.devices[0], service.ports.flashes[0]
        await reload()  # the server is there
        await device.flashes[0]._bus.acquire()  # the server will wait for the chip
        if fails_first:
            told[0].set()
            await device.usb.wait_unplugged()
        with trio.fail_after(10):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(reload)
                await trio.testing.wait_all_tasks_blocked()
                told[0].set()
