"""Boards: what the defaults are, and what each impossible board says of itself."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from aisrv.addons.firmware.board import CTaskSpec
from aisrv.board import (
    ENCODINGS,
    Board,
    BoardError,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SensorSpec,
    SpiSpec,
    TaskSpec,
    catalog,
)
from aisrv.board.catalog import BOARDS, find_board
from aisrv.board.toml_file import read_board
from aisrv.inference.interpreter import INTERPRETERS
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_kind import ENGINE_KINDS, NO_MODEL, EngineKind
from aisrv.protocol.memories import Memory
from aisrv.sensors.image.frame import Encoding
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Hertz
from aisrv.xcore.memory import SRAM_BYTES

KIB = 1024


def test_default_board_is_one_engine_with_usb_on_the_other_tile() -> None:
    board = Board()
    (engine,) = board.engines
    assert (board.tiles, engine.tile, board.usb_tile, board.serial) == (2, 0, 1, None)
    assert (board.core_clock_mhz, board.internal_kib, board.flash_kib) == (600, 512, 0)
    assert (engine.arena_bytes, engine.external_bytes) == (448 * KIB, 16 * KIB * KIB)
    assert (engine.threads, engine.chain_to) == (1, None)


def test_the_single_board_is_the_default_one_and_what_its_file_says() -> None:
    single = BOARDS["single"]
    assert single == Board(description=single.description)
    assert single == read_board(Path(catalog.__file__).parent / "boards/single.toml")


def test_an_arena_in_external_memory_takes_none_of_its_tile() -> None:
    outside = EngineSpec(arena_bytes=20_224_000, arena_memory=Memory.EXTERNAL, external_bytes=1024)
    board = Board(engines=(outside, EngineSpec(arena_bytes=512 * KIB, external_bytes=0)))
    assert board.external_kib == 20_225_024 // KIB


def test_an_arena_and_a_memory_beside_it_are_described_together() -> None:
    outside = EngineSpec(arena_bytes=0xFFFF * KIB, arena_memory=Memory.EXTERNAL, external_bytes=0)
    assert Board(engines=(outside,)).external_kib == 0xFFFF
    with pytest.raises(BoardError, match="engine 0: 67107841 bytes of external memory, at most 67107840 can"):
        Board(engines=(replace(outside, external_bytes=1),))


def test_a_board_that_is_not_shipped() -> None:
    assert "nothing" not in BOARDS
    with pytest.raises(KeyError):
        BOARDS["nothing"]
    with pytest.raises(BoardError) as error:
        find_board("nothing")
    names = ", ".join(map(repr, BOARDS))
    assert str(error.value) == f"'nothing' is not one of {names}, nor FILE.toml or FILE.xn"


@pytest.mark.parametrize("name", ["", "../boards/single", "single.toml.", "/etc/passwd", "SINGLE"])
def test_what_is_no_name_of_a_board_is_not_taken_for_a_file(name: str) -> None:
    with pytest.raises(BoardError, match="is not one of"):
        find_board(name)


def test_names_agree_with_what_they_name() -> None:
    assert set(ENGINE_KINDS) == {*INTERPRETERS, NO_MODEL}
    assert list(ENCODINGS) == [encoding.value for encoding in Encoding]


SENSOR = SensorSpec(tile=0, source="pattern:bars")


@pytest.mark.parametrize(
    ("choices", "acquiring"),
    [
        ([None, None], (0,)),
        ([None, True], (0, 1)),
        ([False, True], (1,)),
        ([True, True, False], (0, 1)),
    ],
)
def test_engines_that_acquire(choices: list[bool | None], acquiring: tuple[int, ...]) -> None:
    specs = tuple(EngineSpec(arena_bytes=0, sensor=choice) for choice in choices)
    assert Board(engines=specs, sensor=SENSOR).acquiring == acquiring


def test_without_a_sensor_no_engine_acquires() -> None:
    assert Board().acquiring == ()


def test_memory_of_a_tile_is_that_of_the_substrate() -> None:
    assert Board(internal_kib=512).internal_kib * KIB == SRAM_BYTES


@pytest.mark.parametrize(
    ("sizes", "kib"),
    [
        ([0], 0),
        ([1023], 0),
        ([1024], 1),
        ([512, 512], 1),
        ([16 << 20, 16 << 20], 32768),
        ([0xFFFF << 10] * 2, 0xFFFF),
    ],
)
def test_external_memory_of_all_engines_as_the_spec_words_can_give_it(sizes: list[int], kib: int) -> None:
    engines = tuple(EngineSpec(arena_bytes=0, external_bytes=size) for size in sizes)
    assert Board(engines=engines).external_kib == kib


def engines(*specs: dict[str, Any]) -> dict[str, Any]:
    return {"engines": tuple(EngineSpec(**{"arena_bytes": 0, **spec}) for spec in specs)}


@pytest.mark.parametrize(
    "settings",
    [
        {"tiles": 1, "usb_tile": 0, "spi": None},
        {"core_clock_mhz": 1},
        {"internal_kib": 448},
        {"flashes": (FlashSpec(),) * 7},
        {"flashes": (FlashSpec(boot_bytes=Size(0)),)},
        {"flashes": (FlashSpec(boot_bytes=Size(8 << 20)),)},
        {"spi": None},
        {"spi": SpiSpec(tile=0)},
        {"serial": ""},
        {"serial": "x" * 126},
        {"spi": None, **engines(*[{}] * 8, *[{"tile": 1}] * 5)},
        {"sensor": SENSOR},
        {"sensor": SensorSpec(tile=1, source=":", width=1, height=1, rate=1e-9)},
        {"sensor": SensorSpec(tile=1, source="a:b:c", encoding="samples", width=65535, height=65535)},
        {"usb_port": 0, "spi": SpiSpec(port=65535), "flashes": (FlashSpec(port=1),)},
        {"ports": (PortSpec(1, "XS1_PORT_4C", "PORT_LEDS"),)},
        engines({"kind": EngineKind("none")}, {"kind": EngineKind("package.module:Class")}),
        engines({"leds": ("red", "gr\u00fcn", "blue", "\u2600")}),
        engines({"arena_bytes": 512 * KIB}),
        engines({"arena_bytes": 512 * KIB}, {"arena_bytes": 512 * KIB, "tile": 1}),
        engines({"arena_bytes": 0, "external_bytes": 0}),
        engines({"external_bytes": 0xFFFF * KIB}),
        engines({"threads": 5}),
        engines({"chain_to": 1}, {"chain_to": 2}, {}),
        engines({"chain_to": 2}, {"chain_to": 2}, {}),
    ],
)
def test_board_at_the_edge_of_what_there_is(settings: dict[str, Any]) -> None:
    Board(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"tiles": 0}, "a node has 1 or 2 tiles, not 0"),
        ({"tiles": 3}, "a node has 1 or 2 tiles, not 3"),
        ({"engines": ()}, "a board has 1 to 255 engines, not 0"),
        (engines(*[{}] * 256), "a board has 1 to 255 engines, not 256"),
        (
            {"sensor": SensorSpec(tile=2, source="pattern:bars")},
            "the sensor is on tile 2; the node has tiles 0 and 1",
        ),
        (
            {"sensor": SensorSpec(tile=0, source="bars")},
            "the sensor: 'bars' is not a source, write \"scheme:what\" such as pattern:bars",
        ),
        ({"sensor": SensorSpec(tile=0, source="a:\x1b[2J")}, "the source 'a:\\x1b[2J' cannot be shown"),
        (
            {"sensor": SensorSpec(tile=0, source="a:b", encoding="jpeg")},
            "the sensor: no encoding 'jpeg'; there are bayer, yuv, rgb, samples",
        ),
        (
            {"sensor": SensorSpec(tile=0, source="a:b", width=0)},
            "the sensor: a width of 0, frames have 1 to 65535",
        ),
        (
            {"sensor": SensorSpec(tile=0, source="a:b", height=65536)},
            "the sensor: a height of 65536, frames have 1 to 65535",
        ),
        (
            {"sensor": SensorSpec(tile=0, source="a:b", rate=0)},
            "the sensor: the rate is 0 frames a second; it must be above 0",
        ),
        (
            {"sensor": SensorSpec(tile=0, source="a:b", rate=float("nan"))},
            "the sensor: the rate is nan frames a second; it must be above 0",
        ),
        (
            {"sensor": SENSOR, **engines({"sensor": False}, {})},
            "the sensor serves no engine: let one have sensor = true",
        ),
        (engines({}, {"sensor": True}), "engine 1 acquires from a sensor; the board has none"),
        (engines({"leds": ("a",) * 5}), "engine 0: 5 LEDs; an engine has 4"),
        (engines({"leds": ("a", "")}), "the LED '' cannot be shown"),
        (engines({"leds": ("\x1b[2J",)}), "the LED '\\x1b[2J' cannot be shown"),
        ({"description": "two\nlines"}, "the description 'two\\nlines' cannot be shown"),
        (
            {"ports": (PortSpec(2, "XS1_PORT_1A", "X"),)},
            "the port 'X' is on tile 2; the node has tiles 0 and 1",
        ),
        ({"ports": (PortSpec(0, "XS1_PORT_1A", ""),)}, "the name '' cannot be shown"),
        ({"usb_port": 65536}, "invalid TCP port 65536; they are 0 to 65535"),
        ({"spi": SpiSpec(port=-1)}, "invalid TCP port -1; they are 0 to 65535"),
        ({"flashes": (FlashSpec(port=65536),)}, "invalid TCP port 65536; they are 0 to 65535"),
        ({"core_clock_mhz": 0}, "the core clock is 0 MHz; it must be above 0"),
        ({"core_clock_mhz": -600}, "the core clock is -600 MHz; it must be above 0"),
        ({"internal_kib": 0}, "a tile has 1 to 512 KiB of memory, not 0"),
        ({"internal_kib": 513}, "a tile has 1 to 512 KiB of memory, not 513"),
        ({"flashes": (FlashSpec(),) * 8}, "65536 KiB of flash, at most 65535 can be described"),
        (
            {"flashes": (FlashSpec(), FlashSpec(tile=2))},
            "flash chip 1 is on tile 2; the node has tiles 0 and 1",
        ),
        (
            {"flashes": (FlashSpec(boot_bytes=Size(4095)),)},
            (
                "flash chip 0: a boot partition of 4095 bytes; "
                "MX25R6435F takes whole sectors of 4096 up to 8388608"
            ),
        ),
        (
            {"flashes": (FlashSpec(boot_bytes=Size((8 << 20) + 4096)),)},
            (
                "flash chip 0: a boot partition of 8392704 bytes; "
                "MX25R6435F takes whole sectors of 4096 up to 8388608"
            ),
        ),
        (
            {"flashes": (FlashSpec(),), **engines({"flash": 1})},
            "engine 0: flash chip 1; the board has 1",
        ),
        (
            engines({}, {"boot": Command.SET_MODEL_ARENA_FLASH}),
            "engine 1 loads its model from flash; the board has none",
        ),
        (
            {"flashes": (FlashSpec(),), **engines({"boot": Command.SET_MODEL_ARENA})},
            "engine 0: <Command.SET_MODEL_ARENA: 134> loads no model from flash",
        ),
        ({"spi": SpiSpec(tile=2)}, "the SPI port is on tile 2; the node has tiles 0 and 1"),
        ({"spi": SpiSpec(engine=1)}, "the SPI port belongs to engine 1, which is not there"),
        (
            {"serial": "x" * 127},
            f"serial number '{'x' * 127}': hosts take at most 126 printable ASCII characters",
        ),
        ({"serial": "a\nb"}, "serial number 'a\\nb': hosts take at most 126 printable ASCII characters"),
        (
            {"serial": "\udcff"},
            "serial number '\\udcff': hosts take at most 126 printable ASCII characters",
        ),
        ({"tiles": 1}, "the USB layer is on tile 1; the node has only tile 0"),
        (
            {"usb_task": "none"},
            "no task 'none' to be the USB device; those in C are none",
        ),
        (
            {"usb_task": "x", "tasks": (CTaskSpec("own", c=(Path("a.c"),)), TaskSpec("two", "a:b"))},
            "no task 'x' to be the USB device; those in C are own",
        ),
        (
            {"usb_task": "own", "tasks": (TaskSpec("own", "a:b"),)},
            "the task 'own' is in Python; a USB device of your own is in C",
        ),
        (
            {"usb_task": "own", "tasks": (CTaskSpec("own", c=(Path("a.c"),)),)},
            "the USB layer is on tile 1, its task 'own' on tile 0",
        ),
        ({"usb_tile": 2}, "the USB layer is on tile 2; the node has tiles 0 and 1"),
        ({"usb_tile": -1}, "the USB layer is on tile -1; the node has tiles 0 and 1"),
        (engines({}, {"tile": 2}), "engine 1 is on tile 2; the node has tiles 0 and 1"),
        (engines({"tile": -1}), "engine 0 is on tile -1; the node has tiles 0 and 1"),
        (engines({"arena_bytes": -1}), "engine 0: an arena of -1 bytes; it must be 0 or more"),
        (
            engines({}, {"external_bytes": -1}),
            "engine 1: -1 bytes of external memory, at most 67107840 can be described",
        ),
        (
            engines({"external_bytes": 67107841}),
            "engine 0: 67107841 bytes of external memory, at most 67107840 can be described",
        ),
        (
            {"flashes": (FlashSpec(), FlashSpec(clock_hz=Hertz(50_000_001)))},
            "flash chip 1: a clock of 50 MHz; MX25R6435F reaches 50",
        ),
        (
            {"flashes": (FlashSpec(clock_hz=Hertz(0)),)},
            "flash chip 0: a clock of 0 MHz; MX25R6435F reaches 50",
        ),
        ({"flashes": (FlashSpec(width=3),)}, "flash chip 0: 3 lines; there are 1, 2, 4"),
        (engines({"threads": 0}), "engine 0: 0 threads; the interpreter has 1 to 5"),
        (engines({"threads": 6}), "engine 0: 6 threads; the interpreter has 1 to 5"),
        (
            engines({"arena_bytes": 524289}),
            "the arenas on tile 0 need 524289 bytes; the tile has 524288",
        ),
        (
            engines({"tile": 1, "arena_bytes": 300000}, {}, {"tile": 1, "arena_bytes": 300000}),
            "the arenas on tile 1 need 600000 bytes; the tile has 524288",
        ),
        (
            {"internal_kib": 256, **engines({"arena_bytes": 262145})},
            "the arenas on tile 0 need 262145 bytes; the tile has 262144",
        ),
        (engines({"chain_to": 1}), "engine 0 is chained to engine 1, which is not there"),
        (engines({}, {"chain_to": -1}), "engine 1 is chained to engine -1, which is not there"),
        (engines({"chain_to": 0}), "engines 0 form a circle of chains"),
        (engines({"chain_to": 1}, {"chain_to": 0}), "engines 0, 1 form a circle of chains"),
        (
            engines({"chain_to": 1}, {"chain_to": 2}, {"chain_to": 1}),
            "engines 0, 1, 2 form a circle of chains",
        ),
    ],
)
def test_board_that_cannot_be_built(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(BoardError) as error:
        Board(**settings)
    assert str(error.value) == message
