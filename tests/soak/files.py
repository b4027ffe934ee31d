"""Mutated files through everything that reads files: each is read, or refused by the error of its kind.

Flash images, boot partitions, parameter files, boards in both formats, packing files, captures, relocatable
images, models, and graphs as texts, words and manifests.
"""

import random
import tempfile
import time
from collections import Counter
from collections.abc import Callable  # noqa: TC003
from pathlib import Path
from typing import Final

from aisrv import digits
from aisrv.addons.captures.replay.transfers import devices_of, transfers_of
from aisrv.board import BoardFileError
from aisrv.board.toml_file import parse_board
from aisrv.board.xn_file import parse_xn
from aisrv.model.errors import ModelFileError
from aisrv.model.reader import read_model
from aisrv.model.relocatable.container import Image as RelocatableImage
from aisrv.model.relocatable.errors import ImageError
from aisrv.values.printable import printable_lines
from flash_server.boot.boot_image import build_boot_image, build_boot_partition, parse_boot_image, report_of
from flash_server.errors import FlashError
from flash_server.files import InputError
from flash_server.image import DataPartition, EngineImage, Generation, parse
from flash_server.image.image_file import Image
from flash_server.image.pack_config import read_config
from flash_server.image.packager import unpack
from flash_server.image.params_file import first_blob
from phy.usb.taps.capture_reader import CaptureError, read_capture
from tests.board.test_xn_file import BOARD as XN_BOARD
from tests.soak.check import Check, Figures
from tests.soak.data_readers import DATA_READERS
from tests.soak.reader import Reader, mutant
from tests.support.models.hostile_graphs import computer, try_manifest, try_text, try_words
from tests.support.models.relocatable import DIGITS as RELOCATABLE_DIGITS
from tests.support.paths import ROOT

LONGEST: Final = 1.0
"""Seconds of CPU that a file may take."""
SECTOR: Final = 4096


def _images() -> list[bytes]:
    model = digits.model_bytes()
    engines = (EngineImage(model, b"\x55" * 99, b"\x66" * 7, b"\x77"), EngineImage(model[:2000]))
    return [
        DataPartition(engines, generation, swapped).build()
        for generation in Generation
        for swapped in (False, True)
    ]


def _unpack_image(data: bytes, folder: Path) -> None:
    path = folder / "image.bin"
    path.write_bytes(data)
    parse(data)
    unpack(Image.open(path), folder / "parts")


def _boot_images() -> list[bytes]:
    factory, upgrade = build_boot_image(1, b"factory" * 40), build_boot_image(2, b"upgrade" * 60)
    return [build_boot_partition(4 * SECTOR, factory, upgrade), factory]


def _boot(data: bytes, _folder: Path) -> None:
    report_of(data, SECTOR)
    parse_boot_image(data)


def _blobs() -> list[bytes]:
    from flatbuffers import flexbuffers

    builder = flexbuffers.Builder()
    with builder.Map():
        builder.Key("first")
        builder.Int(7)
        builder.Key("parameters")
        with builder.Vector():
            builder.Blob(bytes(range(200)))
            builder.String("text")
    return [bytes(builder.Finish())]


def _board(data: bytes, folder: Path) -> None:
    # A file is read as UTF-8 before it is parsed; read_board of a mutant that is none has tests of its own.
    parse_board(data.decode(errors="replace"), "board.toml", folder)


def _pack_file(data: bytes, folder: Path) -> None:
    path = folder / "pack.toml"
    path.write_bytes(data)
    read_config(path)


PACK: Final = b"""generation = "fast"
nibbles = "swapped"
size = "4M"
align = 16
fill = true
missing = "placed"

[[engine]]
model = "person.tflite"
parameters = "person.params"

[[engine]]
xip = "other.xip"
"""


def _capture(data: bytes, _folder: Path) -> None:
    events = list(read_capture(data))
    for device in devices_of(events):
        list(transfers_of(events, device))


READERS: Final[dict[str, Reader]] = {
    "image": Reader(_images(), _unpack_image, FlashError),
    "boot": Reader(_boot_images(), _boot, FlashError),
    "parameters": Reader(_blobs(), lambda data, _: first_blob(data), InputError),
    "board": Reader(
        [path.read_bytes() for path in sorted((ROOT / "aisrv/board/boards").glob("*.toml"))],
        _board,
        BoardFileError,
        is_text=True,
    ),
    "xn board": Reader([XN_BOARD.encode()], lambda data, _: parse_xn(data), BoardFileError, is_text=True),
    "pack": Reader([PACK], _pack_file, InputError, is_text=True),
    "capture": Reader(
        [path.read_bytes() for path in sorted((ROOT / "tests/recordings").glob("*.pcapng"))],
        _capture,
        CaptureError,
    ),
    "relocatable": Reader(
        [RELOCATABLE_DIGITS.read_bytes()], lambda data, _: RelocatableImage.from_bytes(data), ImageError
    ),
    "model": Reader(
        [digits.model_bytes(), digits.two_output_model_bytes()],
        lambda data, _: read_model(data),
        ModelFileError,
    ),
    **DATA_READERS,
}


def try_file(kind: str, number: int, seed: int, folder: Path) -> str:
    """Read one mutant: whether it was read or refused."""
    reader = READERS[kind]
    chance = random.Random(f"{seed}:{kind}:{number}")
    data = mutant(chance.choice(reader.originals), chance, is_text=reader.is_text)
    try:
        reader.read(data, folder)
    except reader.error as refused:
        said = str(refused)
    else:
        return "read"
    assert said == printable_lines(said), f"control characters: {said!r}"
    return "refused"


def run(size: int, seed: int) -> Figures:
    """Read so many mutants, of each kind in turn."""
    outcomes: Counter[str] = Counter()
    slowest, slowest_name = 0.0, ""
    platform = computer()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        graphs: dict[str, Callable[[int], str]] = {
            "graph": lambda number: try_text(number, platform),
            "words": lambda number: try_words(number, platform),
            "manifest": lambda number: try_manifest(number, folder),
        }
        kinds = [*READERS, *graphs]
        for number in range(size):
            kind = kinds[number % len(kinds)]
            started = time.process_time()
            try:
                if kind in graphs:
                    outcome = graphs[kind](seed * 1_000_000_007 + number)
                else:
                    outcome = try_file(kind, number, seed, folder)
            except Exception as error:
                raise AssertionError(f"{kind} {number} of seed {seed} raises {error!r}") from error
            taken = time.process_time() - started
            assert taken < LONGEST, f"{kind} {number} of seed {seed} takes {taken:.1f} s"
            if taken > slowest:
                slowest, slowest_name = taken, f"{kind} {number}"
            outcomes["refused" if outcome == "refused" else "read"] += 1
    return {
        "read": outcomes["read"],
        "refused": outcomes["refused"],
        "slowest": f"{1000 * slowest:.0f} ms ({slowest_name})",
    }


CHECK: Final = Check(
    "files", "mutated images, boards, packs, captures, models and graphs", "files", 100_000, 600, 5, run
)
