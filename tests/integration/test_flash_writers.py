"""Whatever writes a flash chip, cut off at each operation of the chip: all others find theirs as it was.

The list of writers is the product's: each function that calls a verb of the chip has to run in one of the
scenarios here.
"""

import ast
import binascii
import struct
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import pytest
import trio
import trio.testing

from aisrv.addons.jacdac.task.flash_store import ChipStore, EngineStore, SettingsStore
from aisrv.attach.serprog import SerprogServer
from aisrv.device.server_upgrade import ServerUpgrade
from aisrv.xcore.node import open_node
from flash_server.boot.boot_image import build_boot_image, build_boot_partition
from flash_server.chip import chip_file, part
from flash_server.chip.chip import FlashChip
from flash_server.chip.partitions import divide
from flash_server.chip.programmer import Programmer
from flash_server.cli import main
from flash_server.client.flash_channel import FlashChannel
from flash_server.image import DataPartition, EngineImage
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
from tests.support.paths import ROOT

COMMAND = CommandCalls(main)
FACTORY, UPGRADE = build_boot_image(1, noise(30, 5000)), build_boot_image(2, noise(31, 6000))
BOOT = build_boot_partition(BOOT_BYTES, FACTORY, UPGRADE)
OLD = DataPartition(
    (EngineImage(noise(0, 5000), noise(1, 3000)), EngineImage(noise(2, 9000), noise(3, 700)))
).build()
NEW = DataPartition(
    (EngineImage(noise(4, 9000), noise(5, 100)), EngineImage(noise(6, 300), noise(7, 9000)))
).build()
SETTING = struct.pack("<4sHH4s", b"jdsa", 4, binascii.crc_hqx(b"data", 0xFFFF), b"data")
CHIP = (BOOT + OLD).ljust(PART.size - SECTOR, b"\xff") + SETTING.ljust(SECTOR, b"\xff")
ENGINES = ("model 0", "parameters 0", "model 1", "parameters 1")


@dataclass(frozen=True)
class Scenario:
    """A writer, and what it writes: nothing else may change, and that may be old, new, or none."""

    write: Callable[[CutStorage, Path], None]
    written: tuple[str, ...]


def by_loader(work: Callable[[FlashChannel], Awaitable[None]]) -> Callable[[CutStorage, Path], None]:
    """A writer on a channel of the flash server."""

    async def run(storage: CutStorage) -> None:
        async with open_node(seed=1) as node:
            service = FlashService(divide(FlashChip(PART, storage), BOOT_BYTES), lambda _: None)
            channel = node.channel(node.tiles[0], node.tiles[1])
            node.tiles[1].start(flash_server, service, [], [channel.b])
            await work(FlashChannel(channel.a))
            node.stop()

    return lambda storage, _folder: trio.run(run, storage)


def by_file(*words: str) -> Callable[[CutStorage, Path], None]:
    """`aisrv-flash` on a chip's file."""

    def run(storage: CutStorage, folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(chip_file, "FileStorage", lambda _path, _size: storage)
            patch.setitem(part.PARTS, "CUT", PART)
            where = ("--chip", "chip", "--part", "CUT", "--boot-size", str(BOOT_BYTES))
            COMMAND.done(*_in_folder(words, folder), *where)

    return run


def by_device(*words: str) -> Callable[[CutStorage, Path], None]:
    """`aisrv-flash` on a running device, by its programmer's port."""

    def run(storage: CutStorage, folder: Path) -> None:
        with served(storage) as address:
            where = ("--device", address, "--boot-size", str(BOOT_BYTES))
            COMMAND.done(*_in_folder(words, folder), *where)

    return run


def by_programmer(work: Callable[[Programmer], None]) -> Callable[[CutStorage, Path], None]:
    def run(storage: CutStorage, _folder: Path) -> None:
        with served(storage) as address, Programmer.connect(address) as programmer:
            work(programmer)

    return run


def _in_folder(words: tuple[str, ...], folder: Path) -> list[str]:
    files = {"NEW": NEW, "BOOT": build_boot_image(3, noise(32, 9000))}
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return [str(folder / word) if word in files else word for word in words]


@contextmanager
def served(storage: CutStorage) -> Iterator[str]:
    """A chip behind a programmer's port, in a thread."""
    ready = threading.Event()
    address: list[str] = []
    ends: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            host, port = await nursery.start(SerprogServer(FlashChip(PART, storage)).serve)
            address.append(f"{host}:{port}")
            ends.append((trio.lowlevel.current_trio_token(), nursery.cancel_scope))
            ready.set()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    assert ready.wait(60)
    try:
        yield address[0]
    finally:
        token, scope = ends[0]
        trio.from_thread.run_sync(scope.cancel, trio_token=token)
        thread.join(60)


async def upgrade(flash: FlashChannel) -> None:
    """SET_SERVER, as its blocks come over SPI."""
    log: list[str] = []
    server = ServerUpgrade(flash, log.append)
    image = build_boot_image(3, noise(32, 9000))
    await server.begin()
    for at in range(0, len(image) // 512 * 512, 512):
        await server.data(image[at : at + 512])
    assert (await server.end(image[len(image) // 512 * 512 :]), log) == (0, [])


async def set_model(flash: FlashChannel) -> None:
    assert await EngineStore(ChipStore(flash, DATA_BYTES, 2), 1).save(noise(8, 7000)) == ""


async def set_inputs(flash: FlashChannel) -> None:
    settings = SettingsStore(ChipStore(flash, DATA_BYTES, 2))
    settings.keep(b"inputs")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(settings.run)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert await settings.read() == b"inputs"


SCENARIOS = {
    "a model over Jacdac": Scenario(by_loader(set_model), ("model 1",)),
    "the Sensor Aggregator's inputs": Scenario(by_loader(set_inputs), ("setting",)),
    "SET_SERVER": Scenario(by_loader(upgrade), ("UPGRADE",)),
    "aisrv-flash write --chip": Scenario(by_file("write", "NEW"), ENGINES),
    "aisrv-flash write --device": Scenario(by_device("write", "NEW"), ENGINES),
    "aisrv-flash boot --upgrade --chip": Scenario(by_file("boot", "--upgrade", "BOOT"), ("UPGRADE",)),
    "aisrv-flash boot --upgrade --device": Scenario(by_device("boot", "--upgrade", "BOOT"), ("UPGRADE",)),
    "aisrv-flash boot --factory --chip": Scenario(by_file("boot", "--factory", "BOOT"), ("FACTORY",)),
    "Programmer.erase": Scenario(by_programmer(lambda each: each.erase(BOOT_BYTES, SECTOR)), ENGINES),
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_writer_that_is_cut_off_leaves_what_is_others(name: str, tmp_path: Path) -> None:
    storage = CutStorage(CHIP)
    scenario = SCENARIOS[name]
    scenario.write(storage, tmp_path)
    old, _ = contents(CHIP, 2)
    assert None not in old.found.values()
    new, _ = contents(storage.read(0, PART.size), 2)
    assert {key for key in old.found if old.found[key] != new.found[key]} == set(scenario.written)
    states = list(storage.cuts())
    assert len(states) > 1
    for cut, state in enumerate(states):
        found, operations = contents(state, 2)
        for start in (found, *(contents(again, 2)[0] for again in cuts_of(state, operations))):
            assert start.boots.slot is not None
            values = [
                tuple(_prefix(each, new, key) for key in scenario.written) for each in (start, old, new)
            ]
            none = (None,) * len(scenario.written)
            assert values[0] in (*values[1:], none), f"{scenario.written} after {cut} operations"
            for key in old.found.keys() - set(scenario.written):
                assert _prefix(start, old, key) == old.found[key], f"{key} after {cut} operations"


def _prefix(found: object, expected: object, key: str) -> object:
    """Parameters without what lies behind them: the last part of an image reaches to its end."""
    value, other = found.found[key], expected.found[key]  # type: ignore[attr-defined]
    if key.startswith("parameters") and isinstance(value, bytes) and isinstance(other, bytes):
        return value[: len(other)]
    return value


# The list of writers.

VERBS = {
    "erase_sector",
    "program_page",
    "program",
    "erase",
    "write_data",
    "write_server",
    "finish_server",
    "finish_change",
    "replace_model",
    "write_setting",
    "sector_steps",
}
"""Names of what changes a chip, at each layer; and `write` of a chip, a programmer or a storage."""


@cache
def callers() -> frozenset[str]:
    """The functions of the product that call such a verb: file and qualified name."""
    found: set[str] = set()
    for package in ("aisrv", "phy", "flash_server", "host_tools"):
        for path in (ROOT / package).rglob("*.py"):
            text = path.read_text()
            if any(verb in text for verb in (*VERBS, "storage.write", "chip.write", "programmer.write")):
                _collect(ast.parse(text), str(path.relative_to(ROOT)), "", found)
    return frozenset(found)


def _collect(node: ast.AST, path: str, within: str, found: set[str]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = within
        if isinstance(child, ast.ClassDef):
            inner = f"{within}{child.name}."
        elif isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            name = "<lambda>" if isinstance(child, ast.Lambda) else child.name
            inner = f"{within}{name}.<locals>."
        elif isinstance(child, ast.Call) and _is_verb(child.func):
            found.add(f"{path} {within.removesuffix('.<locals>.')}")
        _collect(child, path, inner, found)


def _is_verb(function: ast.expr) -> bool:
    if isinstance(function, ast.Name):
        return function.id in VERBS
    if not isinstance(function, ast.Attribute):
        return False
    receiver = ast.unparse(function.value)
    return function.attr in VERBS or (
        function.attr == "write" and receiver.endswith(("storage", "chip", "programmer"))
    )


def test_each_writer_of_the_product_runs_in_a_scenario(tmp_path: Path) -> None:
    ran: set[tuple[str, str]] = set()

    def watch(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            ran.add((frame.f_code.co_filename, frame.f_code.co_qualname))

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        for scenario in SCENARIOS.values():
            scenario.write(CutStorage(CHIP), tmp_path)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    root = f"{ROOT}/"
    names = {f"{file.removeprefix(root)} {name}" for file, name in ran if file.startswith(root)}
    assert len(callers()) > 20
    missing = callers() - names
    assert missing == set(), "they write a flash chip, and no scenario runs them"
