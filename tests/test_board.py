"""Boards: what the defaults are, and what each impossible board says of itself."""

from typing import Any

import pytest

from aisrv.board import BOARDS, Board, BoardError, EngineSpec, FlashSpec, SpiSpec
from aisrv.protocol import Command
from aisrv.xcore.memory import SRAM_BYTES

KIB = 1024


def test_default_board_is_one_engine_with_usb_on_the_other_tile() -> None:
    board = Board()
    (engine,) = board.engines
    assert (board.tiles, engine.tile, board.usb_tile, board.serial) == (2, 0, 1, None)
    assert (board.core_clock_mhz, board.internal_kib, board.flash_kib) == (600, 512, 0)
    assert (engine.arena_bytes, engine.external_bytes) == (448 * KIB, 16 * KIB * KIB)
    assert (engine.threads, engine.chain_to) == (1, None)


def test_boards_by_name() -> None:
    assert {name: [(e.tile, e.chain_to) for e in board.engines] for name, board in BOARDS.items()} == {
        "single": [(0, None)],
        "two-engines": [(0, None), (1, None)],
        "chained": [(0, 1), (1, None)],
    }


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
        {"flashes": (FlashSpec(boot_bytes=0),)},
        {"flashes": (FlashSpec(boot_bytes=8 << 20),)},
        {"spi": None},
        {"spi": SpiSpec(tile=0)},
        {"serial": ""},
        {"serial": "x" * 126},
        engines(*[{}] * 255),
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
        ({"core_clock_mhz": 0}, "a core clock of 0 MHz, it must be above 0"),
        ({"core_clock_mhz": -600}, "a core clock of -600 MHz, it must be above 0"),
        ({"internal_kib": 0}, "a tile has 1 to 512 KiB of memory, not 0"),
        ({"internal_kib": 513}, "a tile has 1 to 512 KiB of memory, not 513"),
        ({"flashes": (FlashSpec(),) * 8}, "65536 KiB of flash, at most 65535 can be described"),
        ({"flashes": (FlashSpec(), FlashSpec(tile=2))}, "flash chip 1 is on tile 2, the node has 2"),
        (
            {"flashes": (FlashSpec(boot_bytes=4095),)},
            (
                "flash chip 0: a boot partition of 4095 bytes; "
                "MX25R6435F takes whole sectors of 4096 up to 8388608"
            ),
        ),
        (
            {"flashes": (FlashSpec(boot_bytes=(8 << 20) + 4096),)},
            (
                "flash chip 0: a boot partition of 8392704 bytes; "
                "MX25R6435F takes whole sectors of 4096 up to 8388608"
            ),
        ),
        (
            {"flashes": (FlashSpec(),), **engines({"flash": 1})},
            "engine 0: flash chip 1, the board has 1",
        ),
        (
            engines({}, {"boot": Command.SET_MODEL_ARENA_FLASH}),
            "engine 1 loads its model from flash, the board has none",
        ),
        (
            {"flashes": (FlashSpec(),), **engines({"boot": Command.SET_MODEL_ARENA})},
            "engine 0: <Command.SET_MODEL_ARENA: 134> loads no model from flash",
        ),
        ({"spi": SpiSpec(tile=2)}, "the SPI port is on tile 2, the node has 2"),
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
        ({"tiles": 1}, "the USB layer is on tile 1, the node has 1"),
        ({"usb_tile": 2}, "the USB layer is on tile 2, the node has 2"),
        ({"usb_tile": -1}, "the USB layer is on tile -1, the node has 2"),
        (engines({}, {"tile": 2}), "engine 1 is on tile 2, the node has 2"),
        (engines({"tile": -1}), "engine 0 is on tile -1, the node has 2"),
        (engines({"arena_bytes": -1}), "engine 0: an arena of -1 bytes"),
        (
            engines({}, {"external_bytes": -1}),
            "engine 1: -1 bytes of external memory, at most 67107840 can be described",
        ),
        (
            engines({"external_bytes": 67107841}),
            "engine 0: 67107841 bytes of external memory, at most 67107840 can be described",
        ),
        (engines({"threads": 0}), "engine 0: 0 threads, the interpreter has 1 to 5"),
        (engines({"threads": 6}), "engine 0: 6 threads, the interpreter has 1 to 5"),
        (
            engines({"arena_bytes": 524289}),
            "the arenas on tile 0 need 524289 bytes, the tile has 524288",
        ),
        (
            engines({"tile": 1, "arena_bytes": 300000}, {}, {"tile": 1, "arena_bytes": 300000}),
            "the arenas on tile 1 need 600000 bytes, the tile has 524288",
        ),
        (
            {"internal_kib": 256, **engines({"arena_bytes": 262145})},
            "the arenas on tile 0 need 262145 bytes, the tile has 262144",
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
