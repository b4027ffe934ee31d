"""Flash: images beside copying a file, READ_MODEL through channels, and the XIP window.

python -m benchmarks.flash
"""

import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import trio

from aisrv.xcore.node import open_node
from benchmarks.rows import Row
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import FlashPart
from flash_server.chip.partitions import divide
from flash_server.chip.storage import FileStorage
from flash_server.client.flash_channel import FlashChannel
from flash_server.client.xip import open_window
from flash_server.image import DataPartition, EngineImage, Generation
from flash_server.image.comparison import verify
from flash_server.image.image_file import EngineFiles, Image
from flash_server.image.pack_options import PackOptions
from flash_server.image.packager import pack
from flash_server.server.server import flash_server
from flash_server.server.service import FlashService

MIB: Final = 1 << 20
IMAGE: Final = 64 * MIB
MODEL: Final = 4 * MIB
REPEATS: Final = 7
READS: Final = 20_000


def _best(action: Callable[[], object]) -> float:
    """Seconds of the fastest of a few runs: other work of the machine only ever slows one down."""
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def _images(directory: Path) -> list[Row]:
    model, image, copy = directory / "model", directory / "image", directory / "copy"
    model.write_bytes(os.urandom(IMAGE - 64))
    files = [EngineFiles(model)]
    rows = []
    for swapped in (False, True):
        options = PackOptions(Generation.FAST, swapped)
        order = "swapped" if swapped else "normal"
        seconds = {"pack": _best(lambda options=options: pack(files, image, options))}  # type: ignore[misc]
        seconds["copy"] = _best(lambda: shutil.copyfile(image, copy))
        seconds["verify against the file"] = _best(lambda: verify(Image.open(image), files))
        seconds["parse"] = _best(lambda: Image.open(image))
        for name, value in seconds.items():
            rows.append(Row(f"64 MiB image, {order}: {name}", value * 1e3, "ms"))
            if name != "copy":
                rows.append(Row(f"64 MiB image, {order}: {name} : copy", value / seconds["copy"], "times"))
    return rows


async def _served(directory: Path) -> list[Row]:
    part = FlashPart("benchmark", 16 * MIB, 0x123456)
    path = directory / "chip"
    data = DataPartition((EngineImage(os.urandom(MODEL), xip=os.urandom(READS * 32)),)).build()
    path.write_bytes(data.ljust(part.size, b"\xff"))
    with FileStorage(path, part.size) as storage:
        async with open_node() as node:
            channel = node.channel(node.tiles[0], node.tiles[1])
            service = FlashService(divide(FlashChip(part, storage), 0))
            node.tiles[1].start(flash_server, service, [channel.b])
            rows = await _reads(FlashChannel(channel.a))
            node.stop()
    return rows


async def _reads(flash: FlashChannel) -> list[Row]:
    seconds = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        await flash.read_model(MODEL)
        seconds.append(time.perf_counter() - start)
    window = await open_window(flash)
    await window.read(0, 4)
    start = time.perf_counter()
    for _ in range(READS):
        await window.read(0, 4)
    hits = READS / (time.perf_counter() - start)
    start = time.perf_counter()
    for address in range(0, READS * 32, 32):
        await window.read(address, 4)
    misses = (READS - 1) / (time.perf_counter() - start)
    return [
        Row("READ_MODEL of 4 MiB through channels", MODEL / statistics.median(seconds) / 1e6, "MB/s"),
        Row("XIP reads of a word, hits", hits, "1/s"),
        Row("XIP reads of a word, misses", misses, "1/s"),
    ]


def run() -> list[Row]:
    """Measure; about 10 s."""
    with tempfile.TemporaryDirectory() as directory:
        return _images(Path(directory)) + trio.run(_served, Path(directory))


if __name__ == "__main__":
    for row in run():
        print(f"{row.name:<65} {row.value:>12.2f} {row.unit}")
