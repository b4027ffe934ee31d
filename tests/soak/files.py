"""Mutated files through everything that reads files: each is read, or refused by the error of its kind.

Flash images, boot partitions, parameter files, boards in both formats, packing files, captures, relocatable
images, models, and graphs as texts, words and manifests.
"""

import random
import struct
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from aisrv import digits
from aisrv.analysis.replay.transfers import devices_of, transfers_of
from aisrv.board import BoardFileError
from aisrv.board.toml_file import parse_board
from aisrv.board.xn_file import parse_xn
from aisrv.model.errors import ModelFileError
from aisrv.model.reader import read_model
from aisrv.model.relocatable.container import Image as RelocatableImage
from aisrv.model.relocatable.errors import ImageError
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
from tests.support.hostile_graphs import computer, try_manifest, try_text, try_words
from tests.support.paths import ROOT
from tests.support.relocatable import DIGITS as RELOCATABLE_DIGITS

LONGEST: Final = 1.0
"""Seconds of CPU that a file may take."""
SECTOR: Final = 4096
WORDS: Final = (0, 1, 4, 0x7FFF, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFC, 0xFFFFFFFF)
TEXTS: Final = (
    *(b"[", b"]", b"[[", b"]]", b"=", b'"', b"'''", b"{", b"}", b",", b".", b"\n", b"#", b"\0", b"\xff"),
    *(b"-1", b"0", b"1", b"99999999999999999999", b"1e400", b"nan", b"inf", b"true", b"2026-01-01", b"0x"),
    *(b'"64K"', b'"-1M"', b'""', b"a.b.c = 1", b"<", b"/>", b"&amp;", b"&x;", b"\xc3\xa9", b"\r", b"\x1b[2J"),
)


@dataclass(frozen=True)
class Reader:
    """Something that reads files: what it takes whole, and the error by which it refuses the rest."""

    originals: Sequence[bytes]
    read: Callable[[bytes, Path], object]
    error: type[Exception]
    is_text: bool = False


def mutant(original: bytes, chance: random.Random, *, is_text: bool) -> bytes:
    """Return a file with up to eight places changed, cut, doubled or moved."""
    data = bytearray(original)
    for _ in range(chance.choice((1, 1, 2, 4, 8))):
        at = chance.randrange(len(data) + 1)
        change = chance.randrange(8)
        if change == 0 and at < len(data):
            data[at] ^= 1 << chance.randrange(8)
        elif change == 1 and is_text:
            data[at:at] = chance.choice(TEXTS)
        elif change == 1 and len(data) >= 4:
            # Headers come first in most files.
            place = chance.randrange(min(len(data), chance.choice((64, 1024, len(data)))) // 4 + 1) * 4
            if place + 4 <= len(data):
                struct.pack_into(
                    "<I", data, place, chance.choice((*WORDS, len(data), chance.getrandbits(32)))
                )
        elif change == 2:
            del data[at:]
        elif change == 3:
            del data[at : at + chance.choice((1, 2, 4, 16, 256))]
        elif change == 4:
            data[at:at] = data[at : at + chance.choice((1, 4, 16, 256))]
        elif change == 5:
            data[at:at] = chance.randbytes(chance.choice((1, 3, 4, 64)))
        elif change == 6:
            other = chance.randrange(len(data) + 1)
            length = chance.choice((1, 4, 16, 64))
            data[at : at + length] = data[other : other + length]
        else:
            data[at : at + chance.choice((1, 4, 16))] = bytes((chance.choice((0, 0xFF, 0x20, 0x7F)),)) * 4
    return bytes(data)


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
}


def try_file(kind: str, number: int, seed: int, folder: Path) -> str:
    """Read one mutant: whether it was read or refused."""
    reader = READERS[kind]
    chance = random.Random(f"{seed}:{kind}:{number}")
    data = mutant(chance.choice(reader.originals), chance, is_text=reader.is_text)
    with suppress(reader.error):
        reader.read(data, folder)
        return "read"
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
