"""A camera that recognizes digits: pictures of a folder are streamed and classified, and LEDs follow.

One host on USB and one on SPI look on at the same time. On virtual time each frame is exact; live, the same
same device runs in a process of its own.
"""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from msgspec import structs
from PIL import Image
from trio.testing import MockClock

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, SensorSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command, CommandPacket, Dialect, GpioMode
from host_tools.client import AiServer
from tests.support.models import networks
from tests.support.programs import AISRV, TIMEOUT, run_process, running

PICTURES = [digits.test_images()[index] for index in (0, 1, 2, 3, 10, 4)]
RATE = 10
SIDE = 64
BOARD = """
[usb]
tile = 1
[spi]
tile = 1
[sensor]
tile = 1
source = "folder:frames:loop"
encoding = "rgb"
width = 64
height = 64
rate = 10
[[engines]]
tile = 0
"""


def outputs() -> list[bytes]:
    model = digits.model_bytes()
    return [networks.run(model, picture)[0] for picture, _ in PICTURES]


def classes() -> list[int]:
    return [max(range(10), key=memoryview(scores).cast("b").__getitem__) for scores in outputs()]


@pytest.fixture
def frames(tmp_path: Path) -> Path:
    """The test images as pictures of 64 by 64: each pixel of theirs is a square of eight."""
    folder = tmp_path / "frames"
    folder.mkdir()
    for number, (picture, _) in enumerate(PICTURES):
        gray = bytes(value + 128 & 0xFF for value in picture)
        small = Image.frombytes("L", (8, 8), gray)
        small.resize((SIDE, SIDE), Image.Resampling.NEAREST).save(folder / f"{number}.png")
    return folder


def camera(frames: Path) -> Board:
    sensor = SensorSpec(1, f"folder:{frames}:loop", "rgb", SIDE, SIDE, RATE)
    return Board(sensor=sensor)


class UsbHost:
    """A host on USB, in the framing with a status."""

    def __init__(self, device: Device) -> None:
        self._host = InProcessHost(device.usb)

    async def plug_in(self) -> None:
        await self._host.plug_in()

    async def set(self, command: Command, data: bytes = b"") -> int:
        await self._host.write(bytes(CommandPacket(command, dialect=Dialect.DESIGN)))
        await self._host.write(data, zero_packet=True)
        return int.from_bytes(await self._host.read(512), "little")

    async def get(self, command: Command) -> bytes:
        await self._host.write(bytes(CommandPacket(command, dialect=Dialect.DESIGN)))
        assert await self._host.read(512) == bytes(4)
        return await self._host.read(4096)


async def stream(device: Device) -> UsbHost:
    """Load the network, let LEDs show the class, and start the stream."""
    host = UsbHost(device)
    await host.plug_in()
    await device.load_model(digits.model_bytes())
    assert await host.set(Command.SET_OUTPUT_GPIO_MODE, bytes([GpioMode.MAX])) == 0
    assert await host.set(Command.SET_OUTPUT_GPIO_EN, b"\1") == 0
    assert await host.set(Command.START_ACQUIRE_STREAM) == 0
    return host


def on_virtual_time(main: Callable[[], object]) -> None:
    trio.run(main, clock=MockClock(autojump_threshold=0))  # type: ignore[arg-type]


def test_both_hosts_see_each_frame_s_scores_between_it_and_the_next(frames: Path) -> None:
    seen_by_usb, seen_by_spi = [], []

    async def main() -> None:
        async with open_device(camera(frames), runner=inline) as device:
            host = await stream(device)
            assert device.spi is not None
            await trio.sleep(0.5 / RATE)
            for _ in range(2 * len(PICTURES)):
                seen_by_usb.append(await host.get(Command.GET_OUTPUT_TENSOR))
                miso = await device.spi.transfer(bytes((Command.GET_OUTPUT_TENSOR,)) + bytes(12))
                seen_by_spi.append(miso[3:])
                await trio.sleep(1 / RATE)

    on_virtual_time(main)
    assert seen_by_usb == 2 * outputs()
    assert seen_by_spi == 2 * outputs()


def test_live_with_a_host_on_usb_and_one_on_spi(frames: Path) -> None:
    board = frames.parent / "camera.toml"
    board.write_text(BOARD)
    possible = set(outputs())
    with running("--board", str(board), "--spi-port", "0", "--model", str(_model(frames))) as (_, ready):
        usb_address, spi_address = (place.strip() for place in ready.split(","))
        with AiServer.open(usb_address) as usb, AiServer.open(spi_address) as spi:
            usb.acquire_stream()
            by_usb: set[bytes] = set()
            by_spi: set[bytes] = set()
            end = time.monotonic() + TIMEOUT
            while not (by_usb >= possible and by_spi >= possible) and time.monotonic() < end:
                by_usb.add(usb.read_output())
                by_spi.add(spi.read_output())
                time.sleep(0.02)
            usb.acquire_single()
            assert usb.acquire_mode().name == "SINGLE"
    assert by_usb - {bytes(10)} == possible
    assert by_spi - {bytes(10)} == possible


def _model(frames: Path) -> Path:
    path = frames.parent / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return path


def by_itself(frames: Path) -> Board:
    board = camera(frames)
    assert board.sensor is not None
    return replace(board, sensor=structs.replace(board.sensor, stream=True))


def test_board_that_streams_by_itself_classifies_each_frame_without_a_host(frames: Path) -> None:
    seen = []

    async def main() -> None:
        async with open_device(by_itself(frames), runner=inline) as device:
            await trio.sleep(10)
            assert device.engines[0].inferences == 0
            await device.load_model(digits.model_bytes())
            await trio.sleep(0.5 / RATE)
            for count in range(1, len(PICTURES) + 1):
                assert device.engines[0].inferences == count
                seen.append(bytes(device.engines[0].inference.output(0)))
                await trio.sleep(1 / RATE)

    on_virtual_time(main)
    first = outputs().index(seen[0])
    assert seen == (2 * outputs())[first : first + len(PICTURES)]


def test_stream_that_a_host_ends_begins_again_with_the_next_model(frames: Path) -> None:
    async def main() -> None:
        async with open_device(by_itself(frames), runner=inline) as device:
            await device.load_model(digits.model_bytes())
            host = UsbHost(device)
            await host.plug_in()
            assert await host.get(Command.GET_ACQUIRE_MODE) == b"\1\0\0\0"
            assert await host.set(Command.START_ACQUIRE_SINGLE) == 0
            count = device.engines[0].inferences
            await trio.sleep(10)
            assert (device.engines[0].inferences, device.engines[0].streams) == (count, False)
            await device.load_model(digits.model_bytes())
            await trio.sleep(1)
            assert device.engines[0].inferences > count

    on_virtual_time(main)


def test_model_without_a_place_for_a_picture_is_loaded_and_the_reason_logged(frames: Path) -> None:
    async def main() -> None:
        async with open_device(by_itself(frames), runner=inline) as device:
            await device.load_model(networks.adding_network())
            engine = device.engines[0]
            assert (engine.streams, engine.errors) == (False, 0)
            assert b"no stream: input tensor 0 is " in bytes(engine.log)

    on_virtual_time(main)


def test_attachments_are_at_the_ports_that_the_board_names(tmp_path: Path) -> None:
    board = tmp_path / "board.toml"
    text = BOARD.replace("[spi]\n", "[spi]\nport = 0\n").replace("folder:frames:loop", "pattern:bars")
    board.write_text(text)
    with running("--board", str(board)) as (_, ready):
        assert ready.count("spi:0.0@127.0.0.1:") == 1


def test_folder_that_is_not_there_ends_it_with_the_reason(tmp_path: Path) -> None:
    board = tmp_path / "board.toml"
    board.write_text(BOARD.replace("folder:frames", "folder:nowhere"))
    done = run_process([*AISRV, "run", "--port", "0", "--board", str(board)])
    assert done.returncode in (1, 2)
    assert "nowhere" in done.stderr
    assert "Traceback" not in done.stderr
