"""Boards in TOML files: all that they can say, and what is said of what they cannot."""

import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aisrv.board import (
    Board,
    BoardError,
    BoardFileError,
    CommandsSpec,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SensorSpec,
    SpiSpec,
    TaskSpec,
    UsbProtocol,
    plan_of,
)
from aisrv.board.catalog import find_board
from aisrv.board.toml_file import parse_board, read_board
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_kind import EngineKind, default_kind
from aisrv.protocol.memories import FlashPath, Memory
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Hertz
from aisrv.values.settings.toml_file import LARGEST_FILE
from flash_server.chip.part import MX25R3235F, Erase, FlashPart
from flash_server.client.cache import CacheGeometry
from tests.support.amounts import in_ci
from tests.support.paths import ROOT

KIB = 1024

TASK = "[[tasks]]\nname = 'a'\ntask = 'b:c'\n"

EVERYTHING = """
description = "all that a file can say"

[node]
tiles = 2
clock = 800
memory = "256K"

[usb]
tile = 0
serial = "LAB-7"
protocol = "ioserver"
port = 3240

[spi]
tile = 0
engine = 1
port = 3241

[[engines]]
tile = 0
kind = "tflm"
arena = "100K"
external = 0
threads = 5
chain = 1
flash = 1
boot = "ext"
sensor = false
cache = { size = "1K", ways = 4, line = 64 }
leds = ["red", "green"]

[[engines]]
tile = 1
kind = "package.module:Class"
arena = 4096
arena_memory = "external"
external = "1M"
boot = "arena"
sensor = true

[[flash]]
part = "mx25r3235f"
tile = 1
file = "images/chip.bin"
boot_size = "64K"
port = 3242
clock = 33
width = 1
pace = true

[[flash]]
[flash.part]
name = "OWN"
size = "1M"
jedec_id = 0xEF4014
page_size = 128
erases = [
    { opcode = 0x20, size = "4K", seconds = 0.1 },
    { opcode = 0xD8, size = "64K", seconds = 1 },
]
clock = 133
page_program = 0.001
chip_erase = 20
write_status = 0.005

[sensor]
tile = 1
source = "image:digit.png"
encoding = "rgb"
width = 32
height = 16
rate = 29.97

[[ports]]
tile = 0
location = "XS1_PORT_4C"
name = "PORT_LEDS"

[[tasks]]
name = "camera"
task = "own.tasks:camera"
tile = 1
ends = { strips = "director.strips" }

[[tasks]]
name = "director"
task = "own.tasks:direct"
[tasks.ends]
detector = "engine 0"
changes = "engine 1 changes"
memory = "flash 1"
"""


def test_everything_that_a_file_can_say() -> None:
    assert parse_board(EVERYTHING, directory=Path("/boards")) == Board(
        description="all that a file can say",
        tiles=2,
        core_clock_mhz=800,
        internal_kib=256,
        usb_tile=0,
        serial="LAB-7",
        protocol=UsbProtocol.IOSERVER,
        usb_port=3240,
        spi=SpiSpec(tile=0, engine=1, port=3241),
        engines=(
            EngineSpec(
                tile=0,
                kind=EngineKind("tflm"),
                arena_bytes=102400,
                external_bytes=0,
                threads=5,
                chain_to=1,
                flash=1,
                boot=Command.SET_MODEL_EXT_FLASH,
                sensor=False,
                cache=CacheGeometry(size=1024, ways=4, line_bytes=64),
                leds=("red", "green"),
            ),
            EngineSpec(
                tile=1,
                kind=EngineKind("package.module:Class"),
                arena_bytes=4096,
                arena_memory=Memory.EXTERNAL,
                external_bytes=1048576,
                boot=Command.SET_MODEL_ARENA_FLASH,
                sensor=True,
            ),
        ),
        flashes=(
            FlashSpec(
                part=MX25R3235F,
                tile=1,
                path=Path("/boards/images/chip.bin"),
                boot_bytes=Size(65536),
                port=3242,
                clock_hz=Hertz(33_000_000),
                width=1,
                paced=True,
            ),
            FlashSpec(
                part=FlashPart(
                    name="OWN",
                    size=1048576,
                    jedec_id=0xEF4014,
                    page_size=128,
                    erases=(Erase(0x20, 4096, 0.1), Erase(0xD8, 65536, 1.0)),
                    largest_clock_hz=133_000_000,
                    page_program_seconds=0.001,
                    chip_erase_seconds=20.0,
                    write_status_seconds=0.005,
                )
            ),
        ),
        sensor=SensorSpec(tile=1, source="image:digit.png", encoding="rgb", width=32, height=16, rate=29.97),
        ports=(PortSpec(0, "XS1_PORT_4C", "PORT_LEDS"),),
        tasks=(
            TaskSpec("camera", "own.tasks:camera", 1, {"strips": "director.strips"}),
            TaskSpec(
                "director",
                "own.tasks:direct",
                0,
                {"detector": "engine 0", "changes": "engine 1 changes", "memory": "flash 1"},
            ),
        ),
    )


def test_a_task_knows_where_it_is_written_and_the_folder_of_its_file() -> None:
    board = parse_board('\n[[tasks]]\nname = "a"\ntask = "b:c"', "x.toml", Path("/boards"))
    assert (board.place("tasks", 0, "task"), board.folder) == ("x.toml:4: tasks[0].task", Path("/boards"))


@pytest.mark.parametrize("text", ["", "# nothing\n", "engines = [{}]", "[node]\n[usb]", "\r\n[node]\r\n"])
def test_what_a_file_leaves_out_has_its_default_but_for_spi(text: str) -> None:
    assert parse_board(text) == Board(spi=None)


def test_an_empty_table_is_a_part_that_is_there() -> None:
    assert parse_board("[spi]\n[[flash]]") == Board(flashes=(FlashSpec(),))


def test_an_absolute_path_stays() -> None:
    board = parse_board('[[flash]]\nfile = "/chips/a.bin"', directory=Path("/boards"))
    assert board.flashes[0].path == Path("/chips/a.bin")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        # names
        (
            "clock = 1",
            (
                "1: clock: 'clock' is not known here; known are description, node, usb, spi, "
                "engines, flash, sensor, ports, tasks, graph, jacdac, peripherals, pins"
            ),
        ),
        ("\n[node]\ntils = 2", "3: node.tils: 'tils' is not known here; did you mean tiles?"),
        (
            "[node]\nqqq = 2",
            "2: node.qqq: 'qqq' is not known here; "  # noqa: ISC004 - one text
            "known are tiles, clock, reference, flash, device_time, xscope, memory",
        ),
        (
            '[[engines]]\n[[engines]]\n"are\\na" = 1',
            "3: engines[1].'are\\na': 'are\\na' is not known here; did you mean arena?",
        ),
        ("[[engine]]", "1: engine: 'engine' is not known here; did you mean engines?"),
        (
            "[[flash]]\n[flash.part]\nsise = 1",
            "3: flash[0].part.sise: 'sise' is not known here; did you mean size?",
        ),
        # types
        ("[[engines]]\ntile = true", "2: engines[0].tile: must be a whole number, not True"),
        ("[[engines]]\ntile = 1.0", "2: engines[0].tile: must be a whole number, not 1.0"),
        ("[[engines]]\ntile = '0'", "2: engines[0].tile: must be a whole number, not '0'"),
        ("[[engines]]\nsensor = 1", "2: engines[0].sensor: must be true or false, not 1"),
        (
            '[[engines]]\nkind = "kernels"\nfallback = "tensorflow"',
            (
                "3: engines[0].fallback: engine 0: no kind 'tensorflow', there are tflite, litert, tflm, "
                'xcore, kernels, relocatable, none and "module:class"'
            ),
        ),
        (
            '[[engines]]\ntile = 0\nkind = "tensorflow"',
            (
                "3: engines[0].kind: engine 0: no kind 'tensorflow', there are tflite, litert, tflm, xcore, "
                'kernels, relocatable, none and "module:class"'
            ),
        ),
        ("[[engines]]\nkind = 1", "2: engines[0].kind: must be a text in quotes, not 1"),
        (
            "[[engines]]\narena = 1.5",
            "2: engines[0].arena: must be a size, such as 4096, 448K or 16M, not 1.5",
        ),
        (
            "[[engines]]\nleds = 'red'",
            '2: engines[0].leds: must be an array of texts, such as ["red", "green"], not \'red\'',
        ),
        ("[[engines]]\nleds = [\n'red',\n1]", "4: engines[0].leds[1]: must be a text in quotes, not 1"),
        ("engines = 1", "1: engines: must be an array of tables, not 1; write [[engines]] above each"),
        (
            "[engines]\ntile = 1",
            "1: engines: must be an array of tables, not {'tile': 1}; write [[engines]] above each",
        ),
        ("[jacdac]\nport = 70000", "2: jacdac.port: invalid TCP port 70000; they are 0 to 65535"),
        (
            "[jacdac]\nwebsocket_port = -1",
            "2: jacdac.websocket_port: invalid TCP port -1; they are 0 to 65535",
        ),
        ("[jacdac]\nhub = 'x'", "2: jacdac.hub: the Jacdac device: 'x' is not HOST:PORT"),
        ("[jacdac]\ntile = 2", "2: jacdac.tile: the Jacdac device is on tile 2; the node has tiles 0 and 1"),
        (
            "[jacdac]\ndevice_id = 0",
            "2: jacdac.device_id: the Jacdac device: an id of 0x0, it has 64 bits and is not 0",
        ),
        ("spi = false", "1: spi: must be a table with tile, engine, port, not False"),
        ("[[usb]]", "1: usb: must be a table with tile, task, serial, protocol, port, not [{}]"),
        (
            "[[flash]]\npart = 1",
            (
                "2: flash[0].part: must be a part (MX25R6435F, MX25R3235F) or a table with name, size, "
                "jedec_id, page_size, erases, clock, page_program, chip_erase, write_status, not 1"
            ),
        ),
        ("description = 1", "1: description: must be a text in quotes, not 1"),
        # values
        (
            "[[engines]]\n[[engines]]\n\n# small\narena = 'lots'",
            "5: engines[1].arena: 'lots' is not a size; write bytes as 4096 or 0x1000, or 4K, 4M or 512 KiB",
        ),
        ("[node]\nmemory = 1000", "2: node.memory: 1000 bytes are not whole KiB"),
        (
            "[[engines]]\nboot = 'rom'",
            "2: engines[0].boot: 'rom' is not known here; known are arena, ext",
        ),
        (
            "[usb]\nprotocol = 'ioserv'",
            "2: usb.protocol: 'ioserv' is not known here; did you mean ioserver?",
        ),
        (
            "[[flash]]\npart = 'W25Q64'",
            "2: flash[0].part: no part is named 'W25Q64'; known are MX25R6435F, MX25R3235F",
        ),
        ("[[flash]]\npart = {name = 'A'}", "2: flash[0].part: the key size is missing"),
        (
            "[[flash]]\npart = {name = 'A', size = 1, jedec_id = 1}",
            "2: flash[0].part: A: 1 bytes are not whole blocks of 65536",
        ),
        (
            "[[flash]]\n\n[[flash.part.erases]]\nopcode = 1",
            "3: flash[0].part.erases[0]: the key size is missing",
        ),
        ("[[flash]]\nfile = ''", "2: flash[0].file: must be the path of a file, not ''"),
        ('[[flash]]\nfile = "a\\u0000"', "2: flash[0].file: must be the path of a file, not 'a\\x00'"),
        (
            "[[engines]]\ncache = {size = 3}",
            "2: engines[0].cache: cache size of 3: it must be a power of two",
        ),
        ("[sensor]\ntile = 0", "1: sensor: the key source is missing"),
        (
            "[sensor]\ntile = 0\nsource = 'a:b'\nrate = inf",
            "4: sensor.rate: must be a finite number, not inf",
        ),
        ("[[ports]]\ntile = 0", "1: ports[0]: the key location is missing"),
        (
            "[[tasks]]\nname = 'a'",
            "1: tasks[0]: the task 'a' has no function: give `task`, in Python, or `c`, the sources in C",
        ),
        ("[[tasks]]\ntask = 'a:b'", "1: tasks[0]: the key name is missing"),
        (
            "[tasks]\nname = 'a'",
            "1: tasks: must be an array of tables, not {'name': 'a'}; write [[tasks]] above each",
        ),
        (f"{TASK}end = {{}}", "4: tasks[0].end: 'end' is not known here; did you mean ends?"),
        (f"{TASK}ends = 'engine 0'", "4: tasks[0].ends: must be a table of texts, not 'engine 0'"),
        (f"{TASK}[tasks.ends]\na = 'engine 0'\nb = 1", "6: tasks[0].ends.b: must be a text in quotes, not 1"),
        (
            f"{TASK}ends = {{ a = {{ b = 'c' }} }}",
            "4: tasks[0].ends.a: must be a text in quotes, not {'b': 'c'}",
        ),
        (
            f"{TASK}[tasks.ends]\na = 'engine 0'\nb = 'engine 1'",
            "6: tasks[0].ends.b: engine 1 is not there; the board has 1",
        ),
        (
            f"{TASK}ends = {{ 'a b' = 'engine 0' }}",
            "4: tasks[0].ends.'a b': an end has the name of a parameter; 'a b' is not one",
        ),
        (
            "[[tasks]]\nname = 'XUD'\ntask = 'b:c'",
            "2: tasks[0].name: the board has a task 'XUD' already: give this one another name",
        ),
        (f"{TASK}tile = 2", "4: tasks[0].tile: the task 'a' is on tile 2; the node has tiles 0 and 1"),
        (
            "".join(f"[[tasks]]\nname = 'a{n}'\ntask = 'b:c'\ntile = 0\n" for n in range(8)),
            "32: tasks[7].tile: tile 0 needs 9 cores: aiengine 0, a0, a1, a2, a3, a4, a5, a6, a7; it has 8",
        ),
        (
            "[node]\nclock = 99999999999999",
            "2: node.clock: must be a whole number from -1099511627776 to 1099511627776, not 99999999999999",
        ),
        (
            f"[node]\nclock = 0x{'f' * 9000}",
            "2: node.clock: must be a whole number from -1099511627776 to 1099511627776, not such a number",
        ),
        # the board as a whole
        (
            "[[engines]]\n[[engines]]\ntile = 5",
            "3: engines[1].tile: engine 1 is on tile 5; the node has tiles 0 and 1",
        ),
        ("[node]\ntiles = 3", "2: node.tiles: a node has 1 or 2 tiles, not 3"),
        ("[node]\ntiles = 1", "1: usb.tile: the USB layer is on tile 1; the node has only tile 0"),
        ("[node]\nclock = 0", "2: node.clock: the core clock is 0 MHz; it must be above 0"),
        ("[node]\nmemory = '513K'", "2: node.memory: a tile has 1 to 512 KiB of memory, not 513"),
        ("[spi]\n[spi.x]", "2: spi.x: 'x' is not known here; known are tile, engine, port"),
        ("[usb]\n[spi]\nengine = 1", "3: spi.engine: the SPI port belongs to engine 1, which is not there"),
        ("[usb]\nport = 65536", "2: usb.port: invalid TCP port 65536; they are 0 to 65535"),
        (
            "[usb]\nserial = 'ä'",
            "2: usb.serial: serial number 'ä': hosts take at most 126 printable ASCII characters",
        ),
        (
            "[[engines]]\n[[engines]]\n",
            "2: engines[1].arena: the arenas on tile 0 need 917504 bytes; the tile has 524288",
        ),
        (
            "[[engines]]\ntile = 0\nchain = 0",
            "3: engines[0].chain: engines 0 form a circle of chains",
        ),
        (
            "[[flash]]\nboot_size = 1",
            (
                "2: flash[0].boot_size: flash chip 0: a boot partition of 1 bytes; "
                "MX25R6435F takes whole sectors of 4096 up to 8388608"
            ),
        ),
        ("[[flash]]\nclock = '25M'", "2: flash[0].clock: must be a whole number, not '25M'"),
        ("[[flash]]\nclock = true", "2: flash[0].clock: must be a whole number, not True"),
        (
            f"[[flash]]\nclock = {-(1 << 40) - 1}",
            (
                "2: flash[0].clock: must be a whole number from -1099511627776 to 1099511627776, "
                "not -1099511627777"
            ),
        ),
        (
            "[sensor]\ntile = 0\nsource = 'bars'",
            (
                "3: sensor.source: the sensor: 'bars' is not a source, "
                'write "scheme:what" such as pattern:bars'
            ),
        ),
        (
            "[sensor]\ntile = 0\nsource = 'pattern:bars'\nfolder = '/'",
            (
                "4: sensor.folder: 'folder' is not known here; known are "
                "tile, source, encoding, width, height, rate, registers, stream"
            ),
        ),
        # the text
        ("[node\n", "1: Expected ']' at the end of a table declaration"),
        ("[node]\n\nclock = ", "3: Invalid value"),
        ("[node]\nclock = 1\nclock = 2", "3: Cannot overwrite a value"),
    ],
)
def test_what_a_file_cannot_say(text: str, message: str) -> None:
    with pytest.raises(BoardFileError) as error:
        parse_board(text)
    assert str(error.value) == f"board.toml:{message}"


def test_too_many_cores_are_of_no_line() -> None:
    with pytest.raises(BoardFileError) as error:
        parse_board("[spi]\n" + "[[engines]]\ntile = 1\narena = 0\n" * 4)
    assert str(error.value) == (
        "board.toml: tile 1 needs 9 cores: XUD, usb_ep0, usb_data, spi_slave, spi_buffer, "
        "aiengine 0, aiengine 1, aiengine 2, aiengine 3; it has 8"
    )


def test_a_file_is_read_with_paths_from_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "my.toml"
    path.write_text('[[flash]]\nfile = "chip.bin"\n', encoding="utf-8")
    assert read_board(path) == Board(spi=None, flashes=(FlashSpec(path=tmp_path / "chip.bin"),))
    assert find_board(str(path)) == read_board(path)


def test_messages_name_the_file_as_it_was_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("my.toml").write_text("\n[nodes]", encoding="utf-8")
    with pytest.raises(BoardFileError) as error:
        find_board("my.toml")
    assert str(error.value) == "my.toml:2: nodes: 'nodes' is not known here; did you mean node?"


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    missing, latin, large = (tmp_path / name for name in ("missing.toml", "latin.toml", "large.toml"))
    latin.write_bytes(b"# gr\xfcn")
    large.write_bytes(b"#" * (LARGEST_FILE + 1))
    for path, message in (
        (missing, f"{missing}: No such file or directory"),
        (tmp_path, f"{tmp_path}: Is a directory"),
        (latin, f"{latin}: not a TOML file: no UTF-8 at byte 4"),
        (large, f"{large}: larger than 65536 bytes"),
        (Path("a\0.toml"), "a\N{REPLACEMENT CHARACTER}.toml: a file's name has no zero byte"),
    ):
        with pytest.raises(BoardFileError) as error:
            read_board(path)
        assert str(error.value) == message


def test_the_largest_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * LARGEST_FILE)
    assert read_board(path) == Board(spi=None)


@pytest.mark.parametrize(
    "text",
    [
        "a = " + "[" * 60000,
        "a = " + "[" * 30000 + "]" * 30000,
        "a = " + "{a=" * 20000,
        "a." * 30000 + "a = 1",
        "[" + "a." * 30000 + "a]",
        "[" + ". 'a' " * 8000 + "]",
        '"a" .' * 10000 + "a = 1",
        'a = "' + '\\"' * 30000,
        "a = 0x" + "f" * 60000,
        "[sensor]\nrate = 0x" + "f" * 60000,
        "a = " + "9" * 60000,
        "\n".join("[[engines]]" for _ in range(5000)),
        "[" + ".".join("a" * 2000) + "]",
        ".".join("a" * 2000) + " = 1",
        'a = "' + "\\" * 60000,
        "a = '''" + "'" * 60000,
        'a = """' + '"' * 60000,
        "\n".join(f"[x{number}.{'.'.join('a' * 30)}]" for number in range(900)),
        "\n".join(f"{'.'.join('a' * 31)}.b{number} = 1" for number in range(900)),
        "engines = [" + "{}," * 21000 + "]",
        "[sensor]\ntile = 0\nsource = 'a:b'\nrate = 1" + "0" * 4000 + ".0",
        "'" + "x" * 60000 + "' = 1",
        "[usb]\nprotocol = '" + "x" * 60000 + "'",
        "\0",
        "\ud800",
    ],
)
def test_hostile_texts_are_refused_at_once(text: str) -> None:
    started = time.process_time()
    with pytest.raises(BoardFileError):
        parse_board(text)
    assert time.process_time() - started < 2


@settings(max_examples=in_ci(300, every_day=60), deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["x = 1", "[a]", "=", "", "tile = -1", "[["]))))
def test_a_corrupt_file_is_a_board_or_an_error_with_its_name(changes: list[tuple[int, str]]) -> None:
    lines = EVERYTHING.split("\n")
    for place, line in changes:
        lines[place % len(lines)] = line
    try:
        parse_board("\n".join(lines), "corrupt.toml")
    except BoardError as error:
        assert str(error).startswith("corrupt.toml:")  # noqa: PT017 - most examples raise none


def test_labels_are_lines_of_a_file_beside_the_board(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("cat\ndog\x1b[2J\n")
    board = parse_board("[[engines]]\nlabels = 'names.txt'", directory=tmp_path)
    assert board.engines[0].labels == ("cat", "dog[2J")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, ": No such file or directory"),
        (b"", " is not text with a name in each line"),
        (b"\xff\xfe", " is not text with a name in each line"),
    ],
)
def test_labels_that_are_none(tmp_path: Path, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / "names.txt").write_bytes(content)
    with pytest.raises(BoardError) as caught:
        parse_board("[[engines]]\nlabels = 'names.txt'", directory=tmp_path)
    assert str(caught.value) == f"board.toml:2: engines[0].labels: {tmp_path / 'names.txt'}{message}"


def test_what_runs_models_that_an_engine_has_no_code_for() -> None:
    board = parse_board('[[engines]]\nkind = "kernels"\nfallback = "tflm"\n')
    assert board.engines[0].fallback == EngineKind("tflm")


def test_stream_is_yes_or_no() -> None:
    text = "[sensor]\ntile = 1\nsource = 'pattern:bars'\nstream = "
    assert [parse_board(text + value).sensor.stream for value in ("true", "false")] == [True, False]  # type: ignore[union-attr]
    with pytest.raises(BoardError, match=r"4: sensor\.stream: "):
        parse_board(text + "1")


DOCS = ROOT / "docs/guides/boards.md"


def test_the_examples_of_the_docs_are_boards() -> None:
    first, part, tasks, commands = re.findall(
        r"```toml\n(.*?)```", DOCS.read_text(encoding="utf-8"), re.DOTALL
    )
    board = parse_board(first)
    assert [str(engine.kind) for engine in board.engines] == [str(default_kind()), "tflm"]
    assert (board.serial, board.engines[1].leds) == ("LAB-7", ("cat", "dog"))
    assert [task.name for task in parse_board(tasks).tasks] == ["director", "buttons"]
    assert parse_board("[[flash]]\n" + part).flashes[0].part.name == "W25Q64JV"
    assert parse_board(commands).engines[0].commands == CommandsSpec("my_commands:COMMANDS")


@pytest.mark.parametrize("kind", ["pipe", "/dev/zero"])
def test_labels_of_what_is_no_file_are_refused_at_once(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "names.txt"
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    with pytest.raises(BoardError) as caught:
        parse_board("[[engines]]\nlabels = 'names.txt'", directory=tmp_path)
    assert str(caught.value) == f"board.toml:2: engines[0].labels: {path}: not a regular file"


def test_labels_of_more_than_a_mebibyte_are_refused(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_bytes(b"a\n" * ((1 << 19) + 1))
    with pytest.raises(BoardError, match="larger than 1048576 bytes"):
        parse_board("[[engines]]\nlabels = 'names.txt'", directory=tmp_path)


@pytest.mark.parametrize(
    ("written", "path"), [("'fast'", FlashPath.FAST), ("'server'", FlashPath.SERVER), ("12.5", 12.5)]
)
def test_what_times_go_by(written: str, path: FlashPath | float) -> None:
    board = parse_board(f"[node]\nreference = 175\nflash = {written}\n[[engines]]\nexternal_clock = 87.5\n")
    assert (board.reference_mhz, board.flash_path, board.engines[0].external_clock_mhz) == (175, path, 87.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[node]\nreference = 0", "2: node.reference: the reference clock is 0 MHz; it must be above 0"),
        ("[node]\nflash = 0", "2: node.flash: flash is read at 0 MB/s; it must be above 0"),
        (
            "[[engines]]\nexternal_clock = -1",
            "2: engines[0].external_clock: engine 0: an external clock of -1 MHz; it must be above 0",
        ),
    ],
)
def test_times_that_are_none(text: str, message: str) -> None:
    with pytest.raises(BoardFileError) as error:
        parse_board(text)
    assert str(error.value) == f"board.toml:{message}"


OWN_USB = """
[usb]
task = "own"
TILE
[[tasks]]
name = "other"
c = ["a.c"]
tile = 1
[[tasks]]
name = "own"
c = ["b.c"]
tile = 0
"""


def test_the_usb_layer_is_on_the_tile_of_its_own_task() -> None:
    board = parse_board(OWN_USB.replace("TILE", ""))
    assert (board.usb_task, board.usb_tile) == ("own", 0)
    assert "usb_ep0" not in {task.name for task in plan_of(board).tasks}
    with pytest.raises(BoardFileError) as refused:
        parse_board(OWN_USB.replace("TILE", "tile = 1"))
    assert str(refused.value) == (
        "board.toml:3: usb.task: the USB layer is on tile 1, its task 'own' on tile 0"
    )
    with pytest.raises(BoardFileError, match=r"board.toml:3: usb.task: no task 'none' to be the USB device"):
        parse_board(OWN_USB.replace('"own"\nTILE', '"none"'))
