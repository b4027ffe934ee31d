"""Boards as text."""

from pathlib import Path

import pytest

from aisrv.addons.firmware.board import CTaskSpec
from aisrv.board import (
    Board,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SensorSpec,
    UsbProtocol,
)
from aisrv.board.catalog import BOARDS
from aisrv.board.drawing import draw_board
from aisrv.protocol.engine_kind import default_kind
from aisrv.protocol.memories import Memory

CHAINED = """\
╭─ tile 0, 512K, 600 MHz ────────────╮   ╭─ tile 1, 512K, 600 MHz ─────────────╮
│ 0 aiengine 0                       │   │ 0 XUD                               │
│ 1 ·                                │   │ 1 usb_ep0                           │
│ 2 ·                                │   │ 2 usb_data                          │
│ 3 ·                                │   │ 3 spi_slave                         │
│ 4 ·                                │   │ 4 spi_buffer                        │
│ 5 ·                                │   │ 5 aiengine 1                        │
│ 6 ·                                │   │ 6 ·                                 │
│ 7 ·                                │   │ 7 ·                                 │
├────────────────────────────────────┤   ├─────────────────────────────────────┤
│ 1 of 8 cores, 6 of 32 channel ends │   │ 6 of 8 cores, 10 of 32 channel ends │
╰────────────────────────────────────╯   ╰─────────────────────────────────────╯

channels
  aiengine 0 (0)  ──  aiengine 1 (1)  the chain
  usb_data (1)    ──  aiengine 0 (0)  commands
  usb_data (1)    ──  aiengine 1 (1)  commands
  spi_slave (1)   ──  spi_buffer (1)  blocks
  spi_buffer (1)  ──  aiengine 0 (0)  commands, model notifications
  program (0)     ──  aiengine 0 (0)  commands
  program (1)     ──  aiengine 1 (1)  commands

engines
  0  tile 0  {kind}  arena 448K  external memory 16M, feeds engine 1
  1  tile 1  {kind}  arena 448K  external memory 16M

around
  USB  tile 1  the AI server's commands
  SPI  tile 1  of engine 0"""


def test_a_board_is_drawn() -> None:
    assert draw_board(BOARDS["chained"]) == CHAINED.format(kind=default_kind())


def test_all_that_may_be_around_a_board() -> None:
    board = Board(
        engines=(
            EngineSpec(arena_memory=Memory.EXTERNAL, external_bytes=0, threads=5, leds=("red", "green")),
        ),
        flashes=(FlashSpec(port=3242),),
        sensor=SensorSpec(tile=0, source="pattern:bars", rate=12.5),
        ports=(PortSpec(1, "XS1_PORT_4C", "PORT_LEDS"),),
        spi=None,
        serial="LAB-7",
        protocol=UsbProtocol.IOSERVER,
    )
    assert draw_board(board).partition("engines\n")[2].splitlines() == [
        (
            f"  0  tile 0  {default_kind()}  external arena 448K  "
            "5 threads, acquires from the sensor, flash chip 0, LEDs red, green and 2 unnamed"
        ),
        "",
        "around",
        "  USB           tile 1  the IO server's, serial number LAB-7",
        "  flash chip 0  tile 0  MX25R6435F, 8M, of which 1M to boot from, in memory, at TCP port 3242",
        "  sensor        tile 0  pattern:bars, 640x480 bayer, 12.5 frames a second",
        "",
        "ports",
        "  tile 1  XS1_PORT_4C  PORT_LEDS",
    ]


def test_a_usb_device_of_ones_own_is_named() -> None:
    board = Board(usb_task="own", tasks=(CTaskSpec("own", c=(Path("own.c"),), tile=1),), spi=None)
    assert "  USB  tile 1  the task own" in draw_board(board).splitlines()


@pytest.mark.parametrize("name", BOARDS)
def test_every_shipped_board_fits_a_terminal(name: str) -> None:
    lines = draw_board(BOARDS[name]).splitlines()
    assert max(map(len, lines)) <= 120
    boxes = [line for line in lines if line[0:1] in "╭│├╰" and line]
    assert len({len(line) for line in boxes}) == 1
    assert len(boxes) == 12
