"""`aisrv-flash inspect` and `verify` of a whole chip: slots, partitions, images, what is free."""

import json
import random
from pathlib import Path

import pytest

from flash_server.boot.boot_image import build_boot_image, build_boot_partition
from flash_server.chip.part import MX25R3235F
from flash_server.cli import main
from flash_server.image import DataPartition, EngineImage, Generation
from flash_server.image.journal import Claim
from tests.support.benches.cut_flash import noise
from tests.support.command_calls import CommandCalls

COMMAND = CommandCalls(main)
call, done, failed = COMMAND.call, COMMAND.done, COMMAND.failed

SECTOR = 4096
SIZE = MX25R3235F.size
BOOT = 1 << 20
FACTORY, UPGRADE = build_boot_image(3, noise(1, 5000)), build_boot_image(4, noise(2, 9000))
FACTORY_CRC, UPGRADE_CRC = (int.from_bytes(image[16:20], "little") for image in (FACTORY, UPGRADE))
MODEL, PARAMETERS, OTHER = noise(3, 20000), noise(4, 3000), noise(5, 40000)
IMAGE = DataPartition((EngineImage(MODEL, PARAMETERS), EngineImage(OTHER))).build()
SETTINGS = b"jdsa\4\0\0\0data"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("model").write_bytes(MODEL)
    return tmp_path


def write(*pieces: tuple[int, bytes | bytearray], size: int = SIZE) -> None:
    """Make the file `chip` of pieces at addresses."""
    data = bytearray(b"\xff" * size)
    for address, piece in pieces:
        data[address : address + len(piece)] = piece
    Path("chip").write_bytes(data)


def lines(text: str) -> list[str]:
    return [line.rstrip() for line in text.splitlines()]


def test_inspect_shows_a_chip_as_it_is() -> None:
    """It begins with FF; the byte at 3 MiB lies behind the last model, whose length is known."""
    write((BOOT // 2, UPGRADE), (BOOT, IMAGE), (3 << 20, b"\0"), (SIZE - SECTOR, SETTINGS))
    shown = lines(done("inspect", "chip"))
    assert shown[:4] == [
        "chip: MX25R3235F, 4194304 bytes",
        f"boot: upgrade version 4, 9000 bytes, CRC {UPGRADE_CRC:08x}: the factory slot has no valid image",
        " address     bytes   holds",
        "─" * 80,
    ]
    assert shown[4:15] == [
        "0x000000    524288   factory slot: no boot image",
        f"0x080000      9024   upgrade slot: version 4, CRC {UPGRADE_CRC:08x}",
        "0x100000   3145728   data partition: generation fast, nibbles swapped, 2 engines",
        "0x100000        68     headers",
        "0x100044     20004     engine 0: model",
        "0x104e68      3000     engine 0: parameters",
        "0x105a20     40004     engine 1: model",
        "0x300000      4096     other bytes",
        "0x3ff000      4096     settings",
        "",
        "free: 4108288 bytes in whole sectors; the longest stretch is 2031616 bytes from 0x110000 on",
    ]
    rows = [line.split() for line in shown if line.startswith("0x00") and len(line.split()) == 2]
    assert [address for address, _ in rows] == [f"{address:#010x}" for address in range(0, SIZE, SIZE // 8)]
    cells = "".join(cells for _, cells in rows)
    assert {letter: cells.count(letter) for letter in "UMP?S"} == {"U": 1, "M": 8, "P": 0, "?": 1, "S": 1}
    assert shown[-1] == (
        "U upgrade image, H headers, M model, P parameters, S settings, ? other bytes, · FF; "
        "a cell is 8192 bytes"
    )
    assert "erased" not in "".join(shown)


def test_inspect_of_a_chip_in_json() -> None:
    boot = bytearray(build_boot_partition(BOOT, FACTORY, UPGRADE))
    boot[BOOT // 2 + 100] ^= 1
    write((0, boot), (BOOT, IMAGE))
    found = json.loads(done("--json", "inspect", "chip"))
    text = f"factory version 3, 5000 bytes, CRC {FACTORY_CRC:08x}"
    assert found["boot"]["boots"]["text"] == f"{text}: the upgrade is broken"
    assert found["boot"]["slots"] == [
        {
            "slot": "factory",
            "start": 0,
            "state": "valid",
            "version": 3,
            "length": 5000,
            "crc": FACTORY_CRC,
        },
        {
            "slot": "upgrade",
            "start": BOOT // 2,
            "state": "damaged",
            "text": "the payload of the boot image is damaged: its CRC is wrong",
        },
    ]
    assert (found["kind"], found["part"], found["size"], found["erased"]) == (
        "chip",
        "MX25R3235F",
        SIZE,
        False,
    )
    data = found["data"]
    assert (data["start"], data["size"], data["no_image"], data["journal"]) == (BOOT, SIZE - BOOT, None, None)
    assert data["image"]["engines"][1]["model"]["size"] == len(OTHER)
    assert [(each["kind"], each["engine"], each["start"], each["size"]) for each in found["taken"]] == [
        ("factory", None, 0, 5024),
        ("other", None, BOOT // 2, 3 * SECTOR),
        ("headers", None, BOOT, 68),
        ("model", 0, BOOT + 68, 20004),
        ("parameters", 0, BOOT + 20072, 3000),
        ("model", 1, BOOT + 23072, 40004),
    ]
    assert found["free"] == [
        {"start": 2 * SECTOR, "size": BOOT // 2 - 2 * SECTOR},
        {"start": BOOT // 2 + 3 * SECTOR, "size": BOOT // 2 - 3 * SECTOR},
        {"start": BOOT + 16 * SECTOR, "size": SIZE - BOOT - 16 * SECTOR},
    ]


@pytest.mark.parametrize("place", [0, 100, BOOT // 2, BOOT - 1, BOOT, BOOT + 5000, SIZE - SECTOR, SIZE - 1])
def test_a_chip_with_a_byte_anywhere_is_not_erased(place: int) -> None:
    write((place, b"\0"))
    shown = done("inspect", "chip")
    assert "erased" not in shown
    assert "  other bytes" in shown
    assert json.loads(done("--json", "inspect", "chip"))["erased"] is False
    told = call("verify", "chip")
    assert told.exit_code == 1
    assert "erased" not in told.output


def test_an_erased_chip() -> None:
    write()
    assert lines(done("inspect", "chip"))[0] == "chip: MX25R3235F, 4194304 bytes, erased: all bytes are FF"
    assert json.loads(done("--json", "inspect", "chip"))["erased"] is True
    told = call("verify", "chip")
    assert (told.exit_code, told.stdout) == (1, "chip: no image: the flash is erased, all bytes are FF\n")


@pytest.mark.parametrize("size", [1, 52, 10000])
def test_a_file_of_ff_that_is_no_chip(size: int) -> None:
    for data, text in (
        (b"\xff" * size, "the flash is erased, all bytes are FF"),
        (b"\xff" * max(size, 52) + b"model", f"the first {min(max(size, 52), 4132)} bytes are FF"),
    ):
        Path("chip").write_bytes(data)
        for command in ("inspect", "verify"):
            assert failed(1, command, "chip") == f"aisrv-flash: chip: no image: {text}\n"


def test_verify_of_a_chip() -> None:
    write((0, FACTORY), (BOOT // 2, UPGRADE), (BOOT, IMAGE))
    assert done("verify", "chip", "--engine", "model=model") == (
        f"chip: sound; MX25R3235F; boot: upgrade version 4, 9000 bytes, CRC {UPGRADE_CRC:08x}: the "
        "upgrade is the newest; data partition: generation fast, nibbles swapped, 2 engines\n"
    )
    told = call("verify", "chip", "--engine", "", "--engine", "model=model")
    assert (told.exit_code, told.stdout) == (
        1,
        "chip: engine 1: model: differs from byte 0x0; 40000 and 20000 bytes\n",
    )


@pytest.mark.parametrize(
    ("pieces", "faults"),
    [
        (
            [(0, FACTORY), (BOOT // 2, UPGRADE[:-1] + b"\0"), (BOOT, IMAGE)],
            ["upgrade slot: the payload of the boot image is damaged: its CRC is wrong"],
        ),
        (
            [(0, b"\0" + FACTORY[1:]), (BOOT // 2, b"XSRV"), (BOOT, IMAGE)],
            ["upgrade slot: the header of the boot image is damaged: its CRC is wrong"],
        ),
        (
            [(0, FACTORY), (BOOT, b"\xff\0\xf0\0" + IMAGE[4:])],
            ["data partition: calibration bytes of generation fast, nibbles swapped: byte 0x3 is wrong"],
        ),
        ([(BOOT // 2, UPGRADE)], []),
        ([(BOOT, IMAGE)], []),
        ([(0, b"a loader"), (BOOT, IMAGE)], []),
        (
            [(BOOT + 5000, b"model")],
            ["neither boot images nor a data partition's: the first 4132 bytes are FF"],
        ),
    ],
)
def test_verify_names_what_is_damaged(pieces: list[tuple[int, bytes]], faults: list[str]) -> None:
    write(*pieces)
    told = call("verify", "chip")
    assert told.exit_code == bool(faults)
    assert [line for line in told.stdout.splitlines() if "sound" not in line] == [
        f"chip: {fault}" for fault in faults
    ]


def test_verify_compares_nothing_with_no_image() -> None:
    write((0, FACTORY))
    told = call("verify", "chip", "--engine", "model=model")
    assert (told.exit_code, told.stdout) == (1, "chip: no image to compare: all bytes are FF\n")


def test_boot_partition_of_another_size() -> None:
    write((0x8000, UPGRADE), (0x10000, IMAGE), size=1 << 18)
    assert "data partition: generation fast, nibbles swapped, 2 engines" in done(
        "inspect", "chip", "--boot-size", "64K"
    )
    assert done("verify", "chip", "--boot-size", "64K").startswith(
        "chip: sound; a chip; boot: upgrade version 4"
    )
    assert "no image: the first 4132 bytes are FF" in failed(1, "inspect", "chip")
    for size in ("1M", "100"):
        assert "a boot partition of" in failed(2, "inspect", "chip", "--boot-size", size)


@pytest.mark.parametrize("generation", list(Generation))
def test_an_image_as_large_as_a_chip_is_an_image(generation: Generation) -> None:
    engines = EngineImage(MODEL, PARAMETERS), EngineImage(OTHER)
    Path("chip").write_bytes(DataPartition(engines, generation).build(SIZE, fill=True))
    assert done("inspect", "chip").startswith(f"chip: generation {generation.value}")


@pytest.mark.parametrize("seed", range(12))
def test_a_damaged_chip_is_shown_or_refused_in_a_line(seed: int) -> None:
    """Bytes changed where something reads them: slots, preamble, headers, lengths, journal and settings."""
    dice = random.Random(seed)
    claim = bytes(Claim(1, (range(SECTOR, 2 * SECTOR),)))
    pieces = [
        (0, FACTORY),
        (BOOT // 2, UPGRADE),
        (BOOT, IMAGE),
        (SIZE - 5 * SECTOR, claim),
        (SIZE - SECTOR, SETTINGS),
    ]
    damaged = []
    for address, piece in pieces:
        changed = bytearray(piece)
        for _ in range(dice.randrange(4)):
            changed[dice.randrange(min(len(changed), 72))] = dice.choice(
                (0, 1, 0x7F, 0xFF, dice.randrange(256))
            )
        damaged.append((address, changed))
    write(*damaged)
    for command in ("inspect", "verify"):
        told = call(command, "chip")
        assert told.exception is None or isinstance(told.exception, SystemExit)
        assert told.exit_code in (0, 1)
        assert told.stderr.count("\n") <= 1
