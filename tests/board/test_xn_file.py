"""Boards in `.xn` files, with a file that has the structure of those of XMOS's boards."""

import time
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.board import (
    Board,
    BoardError,
    BoardFileError,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SpiSpec,
    plan_of,
)
from aisrv.board.catalog import find_board
from aisrv.board.xn_file import LARGEST_FILE, parse_xn, read_xn
from flash_server.chip.part import MX25R6435F, Erase
from tests.support.amounts import in_ci

KIB = 1024
MIB = 1024 * KIB

BOARD = """<?xml version="1.0" encoding="UTF-8"?>
<Network xmlns="http://www.xmos.com" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <Type>Board</Type>
  <Name>Test bench</Name>
  <Declarations><Declaration>tileref tile[2]</Declaration></Declarations>
  <Packages>
    <Package id="0" Type="XS3-UnA-1024-FB265">
      <Nodes>
        <Node Id="0" InPackageId="0" Type="XS3-L16A-1024" Oscillator="24MHz" SystemFrequency="700MHz"
              ReferenceFrequency="100MHz">
          <Boot><Source Location="bootFlash"/></Boot>
          <Extmem sizeMbit="256" Frequency="100MHz"/>
          <Tile Number="0" Reference="tile[0]">
            <Port Location="XS1_PORT_1A" Name="PORT_CS"/>
            <Port Location="XS1_PORT_4A" Name="PORT_LAMPS"/>
          </Tile>
          <Tile Number="1" Reference="tile[1]">
            <Port Location="XS1_PORT_1D" Name="PORT_CLOCK_IN"/>
          </Tile>
        </Node>
      </Nodes>
    </Package>
  </Packages>
  <Nodes><Node Id="2" Type="device:" RoutingId="0x8000"/></Nodes>
  <ExternalDevices>
    <Device NodeId="0" Tile="1" Class="SQIFlash" Name="bootFlash" Type="MX25R6435F"/>
  </ExternalDevices>
</Network>
"""


def edited(before: str, after: str) -> bytes:
    assert BOARD.count(before) == 1
    return BOARD.replace(before, after).encode()


def test_all_that_a_file_gives() -> None:
    assert parse_xn(BOARD.encode()) == Board(
        description="Test bench",
        tiles=2,
        usb_tile=1,
        core_clock_mhz=700,
        internal_kib=512,
        spi=SpiSpec(tile=1),
        engines=(EngineSpec(arena_bytes=448 * KIB, external_bytes=32 * MIB),),
        flashes=(FlashSpec(MX25R6435F, tile=1),),
        ports=(
            PortSpec(0, "XS1_PORT_1A", "PORT_CS"),
            PortSpec(0, "XS1_PORT_4A", "PORT_LAMPS"),
            PortSpec(1, "XS1_PORT_1D", "PORT_CLOCK_IN"),
        ),
    )


def test_what_a_file_does_not_say_has_its_default() -> None:
    least = b'<Network><Node Type="XS3-L16A-1024"><Tile Number="0"/><Tile Number="1"/></Node></Network>'
    assert parse_xn(least) == Board(engines=(EngineSpec(external_bytes=0),))


def test_a_node_of_one_tile() -> None:
    board = parse_xn(b'<Network><Node Type="XS3-L8A-256"><Tile Number="0"/></Node></Network>')
    assert (board.tiles, board.usb_tile, board.internal_kib, board.spi) == (1, 0, 256, SpiSpec(tile=0))
    assert board.engines[0].arena_bytes == 224 * KIB
    assert [task.tile for task in plan_of(board).tasks] == [0] * 6


def test_a_file_with_more_than_a_tile_has_cores_for() -> None:
    chip = '<Device NodeId="0" Tile="1" Class="SQIFlash" Type="OTHER" NumPages="4096"/>'
    with pytest.raises(BoardFileError) as error:
        parse_xn(edited("  <ExternalDevices>", f"  <ExternalDevices>{3 * chip}"), "many.xn")
    assert str(error.value) == (
        "many.xn: tile 1 needs 9 cores: XUD, usb_ep0, usb_data, spi_slave, spi_buffer, flash_server 0, "
        "flash_server 1, flash_server 2, flash_server 3; it has 8"
    )


def test_names_count_in_any_case() -> None:
    attributes = edited("SystemFrequency", "systemfrequency").decode().replace("sizeMbit", "SIZEMBIT")
    assert parse_xn(attributes.encode()) == parse_xn(BOARD.encode())
    assert parse_xn(BOARD.replace("Tile", "TILE").encode()) == parse_xn(BOARD.encode())


@pytest.mark.parametrize(
    ("frequency", "megahertz"),
    [("600MHz", 600), ("800 mhz", 800), ("500000KHz", 500), ("700000000Hz", 700), ("600.0MHz", 600)],
)
def test_core_clock(frequency: str, megahertz: int) -> None:
    assert parse_xn(edited("700MHz", frequency)).core_clock_mhz == megahertz


@pytest.mark.parametrize(
    ("ports", "tile"),
    [("PORT_CS", 1), ("PORT_USB_TX_READY", 0), ("port_usb_clk", 0)],
)
def test_usb_is_on_the_tile_with_ports_for_it(ports: str, tile: int) -> None:
    assert parse_xn(edited("PORT_CS", ports)).usb_tile == tile


def test_usb_is_on_the_tile_of_its_name() -> None:
    assert parse_xn(edited("tile[0]", "usb_tile")).usb_tile == 0


@pytest.mark.parametrize(("mbit", "size"), [("0", 0), ("1", 128 * KIB), ("1024", 0xFFFF * KIB)])
def test_external_memory_is_as_large_as_an_engine_can_have(mbit: str, size: int) -> None:
    assert parse_xn(edited('"256"', f'"{mbit}"')).engines[0].external_bytes == size


def test_no_external_memory() -> None:
    board = parse_xn(edited('<Extmem sizeMbit="256" Frequency="100MHz"/>', ""))
    assert board.engines[0].external_bytes == 0


DEVICE = '<Device NodeId="0" Tile="1" Class="SQIFlash" Name="bootFlash" Type="MX25R6435F"/>'


def test_a_flash_chip_that_is_not_known_is_of_the_size_that_is_stated() -> None:
    device = '<Device Class="SPIFlash" Type="OTHER" PageSize="256" SectorSize="4096" NumPages="8192"/>'
    (flash,) = parse_xn(edited(DEVICE, device)).flashes
    assert flash == FlashSpec(replace(MX25R6435F, name="OTHER", size=2 * MIB, jedec_id=0xC22815), tile=0)


def test_what_the_file_says_of_a_known_chip_holds() -> None:
    device = '<Device Class="QSPIFlash" Type="mx25r6435f" PageSize="128" SectorSize="16384" NumPages="4096"/>'
    (flash,) = parse_xn(edited(DEVICE, device)).flashes
    assert (flash.part.name, flash.part.size, flash.part.page_size) == ("MX25R6435F", 512 * KIB, 128)
    assert [erase.size for erase in flash.part.erases] == [16384, 32768, 65536]
    assert flash.part.erases[0] == Erase(0x20, 16384, 0.048)
    assert (flash.part.jedec_id, flash.boot_bytes) == (0xC22813, 512 * KIB)


def test_a_flash_chip_of_no_type_is_the_default_one() -> None:
    assert parse_xn(edited(' Type="MX25R6435F"', "")).flashes == (FlashSpec(tile=1),)


def test_chips_and_what_is_none() -> None:
    devices = DEVICE + DEVICE.replace('"1"', '"0"') + DEVICE.replace("SQIFlash", "Codec")
    assert parse_xn(edited(DEVICE, devices)).flashes == (FlashSpec(tile=1), FlashSpec(tile=0))
    assert parse_xn(edited('NodeId="0" Tile="1"', 'NodeId="7" Tile="1"')).flashes == ()
    assert parse_xn(edited(DEVICE, "")).flashes == ()


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        ("XS3-L16A-1024", "XS2-L16A-512", "9: node: the type 'XS2-L16A-512' is not an xcore.ai, such as "),
        ("XS3-L16A-1024", "", "9: node: the type None is not an xcore.ai, such as 'XS3-L16A-1024'"),
        ("XS3-L16A-1024", "XS3-L16A-2048", ": a tile has 1 to 512 KiB of memory, not 1024"),
        ("XS3-L16A-1024", "XS3-L16A-0", ": a tile has 1 to 512 KiB of memory, not 0"),
        ("700MHz", "fast", "9: node: systemfrequency 'fast' is not a frequency, such as '600MHz'"),
        ("700MHz", "700500KHz", "9: node: a core clock of 700500000 Hz is not whole MHz"),
        ("700MHz", "0MHz", ": the core clock is 0 MHz; it must be above 0"),
        (
            'ReferenceFrequency="100MHz"',
            'ReferenceFrequency="50MHz"',
            "9: node: a reference clock of 50000000 Hz, it is 100000000 here",
        ),
        ('Number="1"', 'Number="2"', "9: node: tiles 0, 2; a node has 0, or 0 and 1"),
        ('Number="1"', 'Number="x"', "17: tile: number 'x' is not a whole number"),
        ('Number="1"', "", "17: tile: it has no attribute number"),
        ('Number="0"', 'Number="1"', "9: node: tiles 1; a node has 0, or 0 and 1"),
        ('sizeMbit="256"', "", "12: extmem: it has no attribute sizembit"),
        ('"device:"', '"XS3-L16A-1024"', "24: node: 2 nodes, a board here has one"),
        (' Name="PORT_LAMPS"', "", "15: port: it has no attribute name"),
        ("PORT_LAMPS", "&#x200B;", ": the name '\\u200b' cannot be shown"),
        ("PORT_LAMPS", "&#27;[2J", "15: reference to invalid character number"),
        ('"MX25R6435F"', '"X" NumPages="0"', "26: device: X: 0 bytes are not whole blocks of 65536"),
        ('"MX25R6435F"', '"X" NumPages="131072"', "26: device: X: 33554432 bytes; addresses of 24 bits"),
        ('"MX25R6435F"', '"X" PageSize="3"', "26: device: X: 3 bytes for a page, sector or block: no power"),
        ('Tile="1" Class', 'Tile="2" Class', ": flash chip 0 is on tile 2; the node has tiles 0 and 1"),
        ("<Name>", "<Name", "4: not well-formed (invalid token)"),
        ("</Network>", "", "29: no element found"),
        ("<Type>Board", '<Type a="1" a="2">Board', "3: duplicate attribute"),
        ("<Type>Board", "<Type>&unknown;", "3: undefined entity"),
        ('"UTF-8"', '"nonsense"', "1: unknown encoding: nonsense"),
        ("<Declarations>", "<Tile" + "><a" * 40 + ">", "5: nested too deep"),
    ],
)
def test_what_is_no_board(before: str, after: str, message: str) -> None:
    with pytest.raises(BoardFileError) as error:
        parse_xn(edited(before, after))
    assert str(error.value).startswith(f"board.xn{message if message[0] == ':' else f':{message}'}")


def test_another_kind_of_file() -> None:
    with pytest.raises(BoardFileError) as error:
        parse_xn(b"<html/>")
    assert str(error.value) == "board.xn:1: html: an .xn file is a Network"


LAUGHS = """<?xml version="1.0"?>
<!DOCTYPE Network [
 <!ENTITY a "ha">
 <!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">
 <!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;">
]>
<Network><Name>&c;</Name></Network>
"""


@pytest.mark.parametrize(
    "text", [LAUGHS, '<!DOCTYPE Network SYSTEM "file:///etc/passwd">\n<Network/>', "<!DOCTYPE a><Network/>"]
)
def test_document_types_are_refused(text: str) -> None:
    with pytest.raises(BoardFileError, match=r"board\.xn:\d: a document type declaration"):
        parse_xn(text.encode())


@pytest.mark.parametrize("data", [b"", b"\0", b"\xff\xfe", b"not XML", BOARD.encode()[:-30], b"\xef\xbb\xbf"])
def test_bytes_that_are_no_document(data: bytes) -> None:
    with pytest.raises(BoardFileError, match=r"^board\.xn:\d+: "):
        parse_xn(data)


def test_a_file_in_another_encoding() -> None:
    text = BOARD.replace("Test bench", "Prüfstand").replace("UTF-8", "ISO-8859-1")
    assert parse_xn(text.encode("latin-1")).description == "Prüfstand"


def test_wide_files_are_read_at_once() -> None:
    port = '<Port Location="XS1_PORT_1B" Name="X"/>'
    data = edited('<Port Location="XS1_PORT_1A" Name="PORT_CS"/>', port * 5000)
    started = time.process_time()
    assert len(parse_xn(data).ports) == 5002
    assert time.process_time() - started < 2


def test_files(tmp_path: Path) -> None:
    path, large = tmp_path / "bench.XN", tmp_path / "large.xn"
    path.write_text(BOARD, encoding="utf-8")
    large.write_bytes(bytes(LARGEST_FILE + 1))
    assert find_board(str(path)) == read_xn(path) == parse_xn(BOARD.encode())
    for wrong, message in (
        (large, f"{large}: larger than 262144 bytes"),
        (tmp_path / "no.xn", f"{tmp_path / 'no.xn'}: No such file or directory"),
    ):
        with pytest.raises(BoardFileError) as error:
            find_board(str(wrong))
        assert str(error.value) == message


@settings(max_examples=in_ci(300, every_day=60), deadline=None, derandomize=True)
@given(
    st.integers(0, len(BOARD) - 1), st.integers(0, 60), st.sampled_from(["", "<", ">", '"', "0", "-1", "é"])
)
def test_a_corrupt_file_is_a_board_or_an_error_with_its_name(place: int, length: int, put: str) -> None:
    try:
        parse_xn((BOARD[:place] + put + BOARD[place + length :]).encode(), "corrupt.xn")
    except BoardError as error:
        assert str(error).startswith("corrupt.xn:")  # noqa: PT017 - some examples raise none
