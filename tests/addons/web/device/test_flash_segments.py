"""The segments of a flash's image, at their places in the chip, and as the view of a device has them."""

from pathlib import Path

import pytest
from trio.testing import wait_all_tasks_blocked

from aisrv.addons.web.device.device_view import DeviceView
from aisrv.addons.web.device.flash_segments import MOST_SEGMENTS, shown_segments
from aisrv.board import Board, FlashSpec
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.values.settings.size import Size
from flash_server.chip.chip import FlashChip
from flash_server.chip.partitions import DataImage, divide, read_image
from flash_server.chip.storage import MemoryStorage
from tests.support.benches.flash_node import SMALL, Parts, image

BOOT = Size(8 * 1024)
TWO = [Parts(b"model", b"parameters"), Parts(None, None, b"operators", b"xip!")]
HEADERS = 32


async def read(data: bytes) -> DataImage:
    storage = MemoryStorage(SMALL.size)
    storage.write(BOOT, data)
    return await read_image(divide(FlashChip(SMALL, storage), BOOT).data)


async def test_segments_have_names_places_and_sizes() -> None:
    model, parameters, operators, xip = shown_segments(await read(image(TWO)), BOOT)
    assert model == ["model 0", BOOT + HEADERS, 4 + len(b"model")]
    assert parameters == ["parameters 0", BOOT + HEADERS + 9, len(b"parameters")]
    assert operators == ["operators 1", BOOT + HEADERS + 19, len(b"operators")]
    assert xip[:2] == ["xip 1", BOOT + HEADERS + 28]


async def test_an_engine_with_a_damaged_header_has_none() -> None:
    data = bytearray(image([Parts(b"model"), Parts(b"other")]))
    data[:4] = (SMALL.size * 2).to_bytes(4, "little")
    assert [name for name, *_ in shown_segments(await read(bytes(data)), BOOT)] == ["model 1"]


async def test_no_more_segments_are_shown_than_there_is_room_for() -> None:
    assert len(shown_segments(await read(image([Parts(b"m")] * (MOST_SEGMENTS + 1))), BOOT)) == MOST_SEGMENTS


@pytest.mark.plain_time("its servers have read before any time has passed")
async def test_the_view_shows_what_the_servers_have_read(tmp_path: Path) -> None:
    chip = tmp_path / "chip"
    chip.write_bytes((bytes(BOOT) + image(TWO)).ljust(SMALL.size, b"\xff"))
    board = Board(flashes=(FlashSpec(), FlashSpec(SMALL, path=chip, boot_bytes=BOOT)))
    async with open_device(board, runner=inline) as device:
        await wait_all_tasks_blocked()
        flash = DeviceView("1-1", device).state(0)["flash"]
    assert flash["0"] == []
    assert [name for name, *_ in flash["1"]] == ["model 0", "parameters 0", "operators 1", "xip 1"]
