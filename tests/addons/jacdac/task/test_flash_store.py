"""Models that a Jacdac host sets, in flash: cut off at each operation, the other engines keep theirs."""

import itertools
import json
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from aisrv.addons.jacdac.task.flash_store import ChipStore
from aisrv.xcore.node import open_node
from flash_server.boot.boot_image import build_boot_image, build_boot_partition
from flash_server.chip.chip import FlashChip
from flash_server.chip.partitions import divide
from flash_server.cli import main
from flash_server.client.flash_channel import FlashChannel
from flash_server.errors import FlashError
from flash_server.image import DataPartition, EngineImage, Generation
from flash_server.server.server import flash_server
from flash_server.server.service import FlashService
from tests.support.benches.cut_flash import (
    BOOT_BYTES,
    DATA_BYTES,
    PART,
    SECTOR,
    CutStorage,
    contents,
    cuts_of,
    noise,
)
from tests.support.command_calls import CommandCalls

COMMAND = CommandCalls(main)
BOOT = build_boot_partition(
    BOOT_BYTES, build_boot_image(1, b"factory" * 99), build_boot_image(2, b"new" * 99)
)


MODELS = noise(0, 5000), noise(1, 9000), noise(2, 300)
PARAMETERS = noise(10, 3000), noise(11, 700), noise(12, 5000)
NEW = noise(3, 7000)


def chip(data: bytes = b"") -> bytes:
    return (BOOT + data).ljust(PART.size, b"\xff")


def image(
    engines: int = 2,
    generation: Generation = Generation.FAST,
    swapped: bool | None = None,
    alignment: int = 1,
    placed: bytes | None = None,
) -> bytes:
    parts = zip(MODELS[:engines], PARAMETERS, strict=False)
    images = tuple(EngineImage(model, parameters, placed, placed) for model, parameters in parts)
    return DataPartition(images, generation, swapped, alignment).build()


async def stored(storage: CutStorage, work: Callable[[ChipStore], Awaitable[None]], engines: int = 2) -> None:
    """Run what a store does, on a node with a flash server."""
    async with open_node(seed=1) as node:
        service = FlashService(divide(FlashChip(PART, storage), BOOT_BYTES), lambda _: None)
        channel = node.channel(node.tiles[0], node.tiles[1])
        node.tiles[1].start(flash_server, service, [], [channel.b])
        try:
            await work(ChipStore(FlashChannel(channel.a), DATA_BYTES, engines))
        finally:
            node.stop()


def replaced(before: bytes, engine: int, model: bytes, engines: int = 2) -> CutStorage:
    storage = CutStorage(before)
    trio.run(stored, storage, lambda store: store.replace_model(engine, model), engines)
    return storage


def check_refused(before: bytes, model: bytes, match: str) -> None:
    """A model for engine 0 is refused before anything is written."""
    storage = CutStorage(before)

    async def refused(store: ChipStore) -> None:
        with pytest.raises(FlashError, match=match):
            await store.replace_model(0, model)

    trio.run(stored, storage, refused)
    assert storage.operations == []


def check_cuts(storage: CutStorage, written: str, engines: int) -> int:
    """Cut the power at each operation, and at each of the start after it; return how many starts repaired."""
    old, _ = contents(storage.before, engines)
    new, _ = contents(storage.read(0, PART.size), engines)
    repairs = 0
    for cut, state in enumerate(storage.cuts()):
        found, operations = contents(state, engines)
        repairs += bool(operations)
        starts = [found, *(contents(again, engines)[0] for again in cuts_of(state, operations))]
        for start in starts:
            for name, value in start.found.items():
                allowed = (old.found[name], new.found[name], None) if name == written else (old.found[name],)
                if isinstance(value, bytes) and name.startswith("parameters"):
                    # The last part of an image reaches to its end, where a new model may be half written.
                    value = value[: len(PARAMETERS[int(name[-1])])]
                assert value in allowed, f"{name} after {cut} operations"
            assert start.boots == old.boots
    return repairs


PACKED = image()
LAYOUTS = {
    "packed by generate_flash": PACKED,
    "with empty parts": image(placed=b""),
    "aligned": image(swapped=False, alignment=16),
    "by sectors": image(alignment=SECTOR),
    "design": image(generation=Generation.DESIGN),
    "1.2": image(generation=Generation.VERSION_1_2, swapped=True),
}
EVERYDAY = {
    ("packed by generate_flash", 0, "set"),
    ("packed by generate_flash", 1, "deleted"),
    ("aligned", 1, "set"),
    ("design", 0, "set"),
}
CASES = [
    pytest.param(
        LAYOUTS[layout],
        engine,
        NEW if what == "set" else b"",
        id=f"{layout}, model {engine} {what}",
        marks=() if (layout, engine, what) in EVERYDAY else pytest.mark.long("further layouts"),
    )
    for layout in LAYOUTS
    for engine in (0, 1)
    for what in ("set", "deleted")
]


@pytest.mark.parametrize(("layout", "engine", "model"), CASES)
def test_an_upload_that_is_cut_off_leaves_the_other_engine_alone(
    layout: bytes, engine: int, model: bytes
) -> None:
    storage = replaced(chip(layout), engine, model)
    found, _ = contents(storage.read(0, PART.size), 2)
    assert found.found[f"model {engine}"] == (model or None)
    assert check_cuts(storage, f"model {engine}", 2) > 2


def test_first_model_of_an_erased_chip() -> None:
    storage = replaced(chip(), 1, NEW)
    assert contents(storage.read(0, PART.size), 2)[0].found["model 1"] == NEW
    check_cuts(storage, "model 1", 2)


@pytest.mark.parametrize("engine", [1, 2])
def test_engines_that_the_image_has_no_header_for(engine: int) -> None:
    """The headers grow to where the first model began, which is moved."""
    storage = replaced(chip(image(1)), engine, NEW, 3)
    found = contents(storage.read(0, PART.size), 3)[0].found
    assert (found["model 0"], found["parameters 0"], found[f"model {engine}"]) == (
        MODELS[0], PARAMETERS[0], NEW,
    )  # fmt: skip
    check_cuts(storage, f"model {engine}", 3)


def test_last_model_is_deleted() -> None:
    storage = replaced(replaced(chip(), 0, NEW).read(0, PART.size), 0, b"")
    assert contents(storage.read(0, PART.size), 2)[0].found["model 0"] is None
    check_cuts(storage, "model 0", 2)


def test_a_model_that_fits_only_where_the_old_one_was() -> None:
    """The old one is deleted first; no room is made at the cost of another engine's."""
    large = noise(5, 12 * SECTOR)
    first = replaced(chip(image()), 0, large).read(0, PART.size)
    storage = replaced(first, 0, large[::-1])
    assert contents(storage.read(0, PART.size), 2)[0].found["model 0"] == large[::-1]
    check_cuts(storage, "model 0", 2)
    for size in (18 * SECTOR, 14 * SECTOR):
        check_refused(first, noise(6, size), r"no room for \d+ bytes: the longest free stretch has")


def test_uploads_in_turn_leave_what_each_engine_has() -> None:
    """With a cut at a random operation in each, finished or not."""
    dice = random.Random(7)
    state = chip(image(3))
    expected = contents(state, 3)[0].found
    for turn in range(40):
        engine = dice.randrange(3)
        model = noise(100 + turn, dice.randrange(1, 3 * SECTOR)) if dice.random() < 0.8 else b""
        state = dice.choice(list(replaced(state, engine, model, 3).cuts()))
        found, operations = contents(state, 3)
        state = list(cuts_of(state, operations))[-1]
        name, others = f"model {engine}", {f"model {number}" for number in range(3)} - {f"model {engine}"}
        assert found.found[name] in (expected[name], model or None, None)
        assert {other: found.found[other] for other in others} == {other: expected[other] for other in others}
        expected = found.found
    # What cuts have left behind the last part is erased again.
    state = replaced(state, 0, NEW, 3).read(0, PART.size)
    found, _ = contents(state, 3)
    assert [found.found[f"parameters {number}"] for number in range(3)] == list(PARAMETERS)
    assert not state[-5 * SECTOR :].strip(b"\xff")


def test_a_journal_that_was_not_cleared_does_not_bring_a_deleted_image_back() -> None:
    storage = replaced(chip(), 0, NEW)
    *_, before_last, _last = storage.cuts()  # the record still counts
    gone = replaced(before_last, 0, b"")
    assert contents(gone.read(0, PART.size), 2)[0].found["model 0"] is None


def test_a_journal_of_another_image_is_left_alone() -> None:
    """A programmer has written over the image since, and was cut off before its first sector."""
    storage = replaced(chip(image()), 0, NEW)
    for state in storage.cuts():
        if contents(state, 2)[1]:
            break
    other = bytearray(state)
    other[BOOT_BYTES + 3 * SECTOR] ^= 1
    found, operations = contents(bytes(other), 2)
    assert (found.found["model 0"], found.found["model 1"], operations) == (None, None, [])


def test_an_image_that_takes_the_last_sectors_is_not_written_over() -> None:
    engines = EngineImage(MODELS[1]), EngineImage(MODELS[0], noise(20, DATA_BYTES - 14200))
    full = chip(DataPartition(engines).build())
    check_refused(full, b"small", "reaches past 0x13000: no room for a journal")


def test_a_model_whose_length_is_wrong_is_replaced() -> None:
    """As an upload left it that was cut off by an earlier version of this program."""
    broken = bytearray(chip(image(alignment=16)))
    start = BOOT_BYTES + 0x50
    broken[start : start + 4] = b"\xff\xff\xff\x7f"
    assert isinstance(contents(bytes(broken), 2)[0].found["model 0"], FlashError)
    found = contents(replaced(bytes(broken), 0, NEW).read(0, PART.size), 2)[0].found
    assert (found["model 0"], found["model 1"], found["parameters 1"]) == (NEW, MODELS[1], PARAMETERS[1])


def test_a_chip_of_a_cut_upload_is_shown_as_it_is(tmp_path: Path) -> None:
    path, seen = tmp_path / "chip", []
    for state in replaced(chip(image()), 1, NEW).cuts():
        path.write_bytes(state)
        where = (str(path), "--boot-size", str(BOOT_BYTES))
        found = json.loads(COMMAND.done("--json", "inspect", *where))["data"]
        pending = contents(state, 2)[1]
        assert (found["image"] is None) == bool(pending)
        assert (found["journal"] == "change") == bool(pending)
        assert COMMAND.done("verify", *where).startswith(f"{path}: sound; ")
        seen.append(found["journal"])
    assert [kind for kind, _ in itertools.groupby(seen)] == [None, "claim", "change", "claim", None]
