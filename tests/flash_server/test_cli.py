"""The command `aisrv-flash`: what it prints, what it writes, and its exit codes."""

import json
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import trio
from flatbuffers import flexbuffers

from aisrv.attach.serprog import SerprogServer
from flash_server.boot.boot_image import HEADER_BYTES, build_boot_image
from flash_server.chip.chip import FlashChip
from flash_server.chip.part import MX25R3235F, MX25R6435F
from flash_server.chip.storage import FileStorage, MemoryStorage
from flash_server.cli import main
from flash_server.commands.drawing import FREE, map_cells
from flash_server.image import DataPartition, EngineImage, Generation
from tests.support.command_calls import CommandCalls
from tests.support.programs import FLASH, run_process

MODEL = bytes(range(256)) * 20
PARAMETERS = bytes(range(250, -1, -1)) * 5


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files that the tests name: a model, parameters and an image of them for two engines."""
    monkeypatch.chdir(tmp_path)
    Path("model").write_bytes(MODEL)
    Path("parameters").write_bytes(PARAMETERS)
    engines = (EngineImage(MODEL, PARAMETERS), EngineImage(xip=MODEL))
    Path("image").write_bytes(DataPartition(engines, alignment=16).build(16384, fill=True))
    return tmp_path


COMMAND = CommandCalls(main)
call, done, failed = COMMAND.call, COMMAND.done, COMMAND.failed


# pack.


def test_model_that_is_none_is_packed_by_force_alone() -> None:
    words = ("pack", "--engine", "", "--engine", "model=model", "--output", "f")
    error = failed(2, *words)
    assert error.startswith("aisrv-flash: engine 1: model: model: ")
    assert error.endswith("; --force packs it all the same\n")
    assert not Path("f").exists()
    done(*words, "--force")
    assert Path("f").exists()


def test_models_of_a_toml_file_are_checked(digits_file: Path) -> None:
    Path("c.toml").write_text('[[engine]]\nmodel = "model"\n')
    assert "engine 0: model: model: " in failed(2, "pack", "--config", "c.toml", "--output", "f")
    done("pack", "--engine", f"model={digits_file}", "--output", "f")


@pytest.mark.parametrize(
    "damage", [lambda model: model[: len(model) // 2], lambda model: b"", lambda model: b"\0" * len(model)]
)
def test_damaged_models_are_none(digits_file: Path, damage: Callable[[bytes], bytes]) -> None:
    digits_file.write_bytes(damage(digits_file.read_bytes()))
    assert "--force" in failed(2, "pack", "--engine", f"model={digits_file}", "--output", "f")


@pytest.mark.parametrize("generation", list(Generation))
@pytest.mark.parametrize(("nibbles", "swapped"), [("swapped", True), ("normal", False)])
def test_pack(generation: Generation, nibbles: str, swapped: bool) -> None:
    out = done(
        "pack", "--force", "--engine", "model=model,parameters=parameters", "--engine", "xip=model",
        "--missing", "zero", "--generation", generation.value, "--nibbles", nibbles, "--align", "16",
        "--output", "f",
    )  # fmt: skip
    wanted = DataPartition((EngineImage(MODEL, PARAMETERS), EngineImage(xip=MODEL)), generation, swapped, 16)
    assert Path("f").read_bytes() == wanted.build()
    assert out == f"f: {generation.value}, nibbles {nibbles}, 2 engines, {wanted.image_size} bytes\n"


def test_an_older_name_of_normal_nibbles() -> None:
    out = done("pack", "--force", "--engine", "model=model", "--nibbles", "straight", "--output", "f")
    assert "nibbles normal" in out
    assert '"nibbles": "normal"' in done("--json", "inspect", "f", "--nibbles", "straight")


def test_pack_fills() -> None:
    done("pack", "--force", "--engine", "model=model", "--size", "0x2000", "--fill", "--output", "f")
    assert len(Path("f").read_bytes()) == 0x2000
    done("pack", "--force", "--engine", "model=model", "--size", "8K", "--output", "f")
    assert len(Path("f").read_bytes()) == 0x34 + 4 + len(MODEL)


def test_file_name_with_commas() -> None:
    Path("a,b=c,d").write_bytes(b"x")
    done("pack", "--force", "--engine", "model=a,b=c,d,xip=model", "--output", "f")
    assert json.loads(done("--json", "inspect", "f"))["engines"][0]["model"]["size"] == 1


def test_engine_without_parts() -> None:
    done("pack", "--force", "--generation", "1.2", "--engine", "", "--engine", "model=model", "--output", "f")
    assert json.loads(done("--json", "inspect", "f"))["engines"][0] == dict.fromkeys(
        ("model", "parameters", "operators", "xip")
    )


def test_config_and_options_that_override_it() -> None:
    Path("sub").mkdir()
    Path("sub/model").write_bytes(b"m")
    Path("sub/c.toml").write_text(
        'generation = "design"\nalign = 64\nfill = true\n[[engine]]\nmodel = "model"\n'
    )
    done("pack", "--force", "--config", "sub/c.toml", "--size", "256", "--output", "f")
    assert Path("f").read_bytes() == DataPartition(
        (EngineImage(b"m"),), Generation.DESIGN, alignment=64
    ).build(256, fill=True)
    options = ("--generation", "1.2", "--no-fill", "--align", "1")
    done("pack", "--force", "--config", "sub/c.toml", *options, "--output", "f")
    assert Path("f").read_bytes() == DataPartition((EngineImage(b"m"),), Generation.VERSION_1_2).build()


def test_pack_refuses_what_does_not_fit() -> None:
    assert failed(1, "pack", "--force", "--engine", "model=model", "--size", "4K", "--output", "f") == (
        "aisrv-flash: engine 0: model at 0x34: it would end at 0x1438, the data partition ends at 0x1000\n"
    )
    assert not Path("f").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "give --engine or --config"),
        (["--engine", "model"], "write PART=FILE"),
        (["--engine", "weights=model"], "write PART=FILE"),
        (["--engine", "model="], "model= has no file"),
        (["--engine", "model=model,model=model"], "model is given twice"),
        (["--engine", "model=model", "--fill"], "--fill pads up to --size"),
        (["--engine", "model=model", "--size", "4T"], "is not a size"),
        (["--engine", "model=model", "--generation", "3"], "'3' is not one of"),
        (["--engine", ""], "no engine has a file"),
        (["--config", "none"], "does not exist"),
        (["--config", "model"], "model: not a TOML file"),
    ],
)
def test_wrong_usage(options: list[str], message: str) -> None:
    assert message in " ".join(failed(2, "pack", "--force", *options, "--output", "f").split())


def test_ambiguous_image_is_warned_about() -> None:
    Path("zeros").write_bytes(bytes(0x3000))
    result = call(
        "pack", "--engine", "xip=zeros", "--generation", "design", "--nibbles", "swapped", "--align", "256",
        "--output", "f",
    )  # fmt: skip
    assert result.exit_code == 0
    assert "warning: f looks like design, nibbles normal, not design, nibbles swapped" in result.stderr
    assert json.loads(done("--json", "inspect", "--nibbles", "swapped", "f"))["nibbles"] == "swapped"


# inspect.


def test_inspect_in_json() -> None:
    assert json.loads(done("--json", "inspect", "image")) == {
        "file": "image",
        "size": 16384,
        "generation": "fast",
        "nibbles": "swapped",
        "headers_end": 0x44,
        "engines": [
            {
                "model": {"offset": 0x50, "data": 0x54, "size": 5120, "used": 5120},
                "parameters": {"offset": 0x1460, "data": 0x1460, "size": 1264, "used": 1255},
                "operators": None,
                "xip": None,
            },
            {
                "model": None,
                "parameters": None,
                "operators": None,
                "xip": {"offset": 0x1950, "data": 0x1950, "size": 9904, "used": 5119},
            },
        ],
    }


def test_inspect_of_a_model_says_what_it_is_and_what_to_do_with_it(digits_file: Path) -> None:
    assert done("inspect", str(digits_file)).splitlines() == [
        f"{digits_file}: a TensorFlow Lite model of 9,424 bytes, not an image",
        "  input 0: image, int8 1x8x8x1, scale 0.00416667, zero point -128",
        "  output 0: classes, int8 1x10, scale 0.00390625, zero point -128",
        "  operators: 2 CONV_2D, 2 MAX_POOL_2D, 1 FULLY_CONNECTED, 1 SOFTMAX",
        f"To make an image of it: aisrv-flash pack --engine model={digits_file} --output flash.bin",
        f"What it takes on the device: aisrv profile {digits_file}",
    ]


def test_inspect_of_a_model_in_json(digits_file: Path) -> None:
    report = json.loads(done("--json", "inspect", str(digits_file)))
    assert (report["kind"], report["size"]) == ("model", 9424)
    assert report["operators"] == {"CONV_2D": 2, "MAX_POOL_2D": 2, "FULLY_CONNECTED": 1, "SOFTMAX": 1}
    assert [tensor["shape"] for tensor in report["inputs"] + report["outputs"]] == [[1, 8, 8, 1], [1, 10]]


def test_inspect_of_a_damaged_model_is_an_error(digits_file: Path) -> None:
    damaged = digits_file.with_name("damaged.tflite")
    damaged.write_bytes(digits_file.read_bytes()[:100])
    told = failed(2, "inspect", str(damaged))
    assert told.startswith(
        f"aisrv-flash: {damaged}: a TensorFlow Lite model, which is damaged: the field list"
    )


def test_inspect_draws_the_image_in_proportion() -> None:
    out = done("inspect", "image")
    assert out.startswith("image: generation fast, nibbles swapped, 2 engines, 16384 bytes\n")
    assert "0x1460" in out
    rows = [line.split() for line in out.splitlines() if line.startswith("0x0")]
    assert [address for address, _ in rows] == [f"{address:#010x}" for address in range(0, 16384, 2048)]
    cells = "".join(cells for _, cells in rows)
    assert len(cells) == 512
    # In cells of 32 bytes: the model with its length begins in the middle of cell 2 and ends in cell 162.
    counts = {letter: cells.count(letter) for letter in "HMPX"}
    assert counts == {"H": 2, "M": 161, "P": 39, "X": 160}


def test_cells_show_what_takes_most() -> None:
    one, two = ("M", 0), ("X", 1)
    assert map_cells([(0, 15, one), (15, 20, two)], 40, 4) == [one, one, (FREE, None), (FREE, None)]
    assert map_cells([(0, 14, one), (14, 20, two)], 40, 4) == [one, two, (FREE, None), (FREE, None)]
    assert map_cells([(0, 1, one)], 1, 2) == [one, one]


def test_unsound_image() -> None:
    Path("bad").write_bytes(bytes(4096))
    for command in (["inspect"], ["verify"], ["unpack", "--output", "d"]):
        assert failed(1, *command, "bad") == "aisrv-flash: bad: no image: the flash is all zeros\n"
    assert not Path("d").exists()


def test_engines_can_be_said() -> None:
    assert len(json.loads(done("--json", "inspect", "image", "--engines", "1"))["engines"]) == 1
    assert "is not in the range 1<=x<=256" in failed(2, "inspect", "image", "--engines", "0")


# unpack, verify, diff, params.


def test_unpack_and_pack_again() -> None:
    assert done("unpack", "image", "--output", "d").splitlines()[-1] == "d/image.toml"
    done("pack", "--force", "--config", "d/image.toml", "--output", "again")
    assert Path("again").read_bytes() == Path("image").read_bytes()
    done("unpack", "image", "--trim", "--output", "d")
    assert Path("d/engine0.parameters").read_bytes() == PARAMETERS


def test_verify() -> None:
    assert done("verify", "image", "--engine", "model=model,parameters=parameters") == (
        "image: sound; fast, nibbles swapped, 2 engines, 16384 bytes\n"
    )
    result = call("verify", "image", "--engine", "model=parameters,xip=model")
    assert result.exit_code == 1
    assert result.stdout == (
        "image: engine 0: model: differs from byte 0x0; 5120 and 1255 bytes\n"
        "image: engine 0: xip: absent in the image\n"
    )


def test_diff() -> None:
    files = ["--engine", "model=model,parameters=parameters", "--engine", "xip=model"]
    done("pack", "--force", *files, "--missing", "zero", "--output", "f")
    assert done("diff", "image", "f") == "image and f have the same contents\n"
    data = bytearray(Path("image").read_bytes())
    data[0x1460 + 7] ^= 1
    Path("f").write_bytes(data)
    result = call("diff", "image", "f")
    assert (result.exit_code, result.stdout) == (1, "engine 0: parameters: differs from byte 0x7\n")
    result = call("--json", "diff", "image", "f")
    assert (result.exit_code, json.loads(result.stdout)) == (
        1,
        {
            "same": False,
            "differences": [
                {"what": "differs from byte 0x7", "engine": 0, "part": "parameters", "offset": 7}
            ],
        },
    )
    assert json.loads(done("--json", "diff", "image", "image")) == {"same": True, "differences": []}


def test_params() -> None:
    builder = flexbuffers.Builder()
    with builder.Vector():
        builder.Blob(PARAMETERS)
        builder.Blob(b"second")
    Path("m.params").write_bytes(builder.Finish())
    assert done("params", "m.params", "--output", "f") == "f: 1255 bytes\n"
    assert Path("f").read_bytes() == PARAMETERS
    assert failed(2, "params", "model", "--output", "g").startswith("aisrv-flash: model: no flexbuffer")


# write and read.


def test_write_to_a_chip_file_and_read() -> None:
    assert done("write", "image", "--chip", "chip") == "chip: 16384 bytes written to 0x100000 of MX25R6435F\n"
    chip = Path("chip").read_bytes()
    assert len(chip) == MX25R6435F.size
    assert chip[0x100000 : 0x100000 + 16384] == Path("image").read_bytes()
    assert not (chip[:0x100000] + chip[0x100000 + 16384 :]).strip(b"\xff")
    done("read", "--chip", "chip", "--size", "16K", "--output", "f")
    assert Path("f").read_bytes() == Path("image").read_bytes()
    done("read", "--chip", "chip", "--output", "f")
    assert len(Path("f").read_bytes()) == 7 << 20
    assert done("diff", "image", "f") == "image and f have the same contents\n"


def test_write_leaves_what_is_beside_alone() -> None:
    Path("chip").write_bytes(b"\x5a" * MX25R3235F.size)
    Path("bytes").write_bytes(b"\xa5" * 5000)
    out = done("write", "bytes", "--raw", "--chip", "chip", "--boot-size", "0x1000", "--offset", "100")
    assert out == "chip: 5000 bytes written to 0x1064 of MX25R3235F\n"
    chip = Path("chip").read_bytes()
    assert chip == b"\x5a" * 0x1064 + b"\xa5" * 5000 + b"\x5a" * (MX25R3235F.size - 0x1064 - 5000)


def test_write_touches_what_differs_and_what_begins_the_image(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is erased first and written last, so that no image is there meanwhile."""
    written: list[tuple[int, bool]] = []
    write = FileStorage.write

    def counted(storage: FileStorage, address: int, data: bytes) -> None:
        written.append((address, bool(data.strip(b"\xff"))))
        write(storage, address, data)

    monkeypatch.setattr(FileStorage, "write", counted)
    done("write", "image", "--chip", "chip")
    assert written == [(0x101000, True), (0x102000, True), (0x100000, True)]
    written.clear()
    done("write", "image", "--chip", "chip")
    assert written == []
    data = bytearray(Path("image").read_bytes())
    data[0x2345] ^= 1
    Path("bytes").write_bytes(data)
    done("write", "bytes", "--raw", "--chip", "chip")
    assert written == [(0x100000, False), (0x102000, True), (0x100000, True)]


def test_write_refuses_what_the_status_register_protects() -> None:
    done("write", "image", "--chip", "chip")
    Path("chip.registers").write_bytes(b"\x5c\x00")  # QE, and BP0 to BP2: 64 blocks of the top
    Path("bytes").write_bytes(b"bytes")
    before = Path("chip").read_bytes()
    error = failed(1, "write", "bytes", "--raw", "--chip", "chip", "--offset", "6M")
    assert error == (
        "aisrv-flash: chip: 0x400000 to 0x7FFFFF is protected by the status register of MX25R6435F, in "
        "chip.registers\n"
    )
    assert Path("chip").read_bytes() == before


def test_write_names_the_part() -> None:
    done("write", "image", "--chip", "chip", "--part", "mx25r3235f")
    assert Path("chip").stat().st_size == MX25R3235F.size
    assert "no part is named 'X'" in failed(1, "write", "image", "--chip", "chip", "--part", "X")


def test_write_refuses() -> None:
    assert "model: no version word" in failed(1, "write", "model", "--chip", "chip")
    assert "end past MX25R6435F, which ends at 0x800000" in failed(
        1, "write", "image", "--chip", "chip", "--boot-size", "0x7fffff"
    )
    Path("short").write_bytes(bytes(100))
    assert "short has 100 bytes, the part has 8388608" in failed(1, "write", "image", "--chip", "short")
    for options in ([], ["--chip", "chip", "--device", "localhost:1"]):
        assert "give --chip FILE or --device HOST:PORT" in failed(2, "write", "image", *options)
    assert "--part is for --chip" in failed(2, "write", "image", "--device", "localhost:1", "--part", "X")


@pytest.mark.parametrize("slot", ["factory", "upgrade"])
def test_a_boot_image_may_fill_its_slot_and_no_more(slot: str) -> None:
    """A boot partition of 16 KiB has slots of 8 KiB."""
    for name, size in (("exact", 8192), ("longer", 8193)):
        Path(name).write_bytes(build_boot_image(7, bytes(size - HEADER_BYTES)))
    boot = ["boot", "--chip", "chip", "--boot-size", "16K", f"--{slot}"]
    assert f"{slot} version 7, {8192 - HEADER_BYTES} bytes" in done(*boot, "exact")
    assert f"{slot} image of 8193 bytes, the slot has 8192" in failed(1, *boot, "longer")


def test_what_boots_after_an_upgrade_boots_at_the_next_reset() -> None:
    Path("boot").write_bytes(build_boot_image(7, b"firmware"))
    boot = ["boot", "--chip", "chip"]
    assert done(*boot, "--factory", "boot").startswith("chip: at the next reset: factory version 7, 8 bytes")
    assert done(*boot, "--upgrade", "boot").startswith("chip: at the next reset: upgrade version 7, 8 bytes")
    assert done(*boot).startswith("chip: upgrade version 7, 8 bytes")


def test_chip_with_damaged_slots_is_no_error_of_the_command() -> None:
    Path("chip").write_bytes(build_boot_image(7, b"firmware")[:-1].ljust(MX25R6435F.size, b"\xff"))
    assert done("boot", "--chip", "chip") == "chip: no image: no slot has a valid image\n"


def test_read_refuses() -> None:
    assert "none: no such file" in failed(2, "read", "--chip", "none", "--output", "f")
    done("write", "image", "--chip", "chip")
    for options in (["--size", "8M"], ["--offset", "7M"], ["--size", "0"]):
        assert "MX25R6435F ends at 0x800000" in failed(1, "read", "--chip", "chip", *options, "--output", "f")
    assert not Path("f").exists()


@pytest.fixture
def device() -> Iterator[tuple[str, MemoryStorage]]:
    """A chip behind a serprog server in a thread: its address, and its bytes."""
    storage = MemoryStorage(MX25R3235F.size)
    address: list[str] = []
    ready = threading.Event()
    ends: list[tuple[trio.lowlevel.TrioToken, trio.CancelScope]] = []

    async def serve() -> None:
        async with trio.open_nursery() as nursery:
            host, port = await nursery.start(SerprogServer(FlashChip(MX25R3235F, storage)).serve)
            address.append(f"{host}:{port}")
            ends.append((trio.lowlevel.current_trio_token(), nursery.cancel_scope))
            ready.set()

    thread = threading.Thread(target=trio.run, args=(serve,))
    thread.start()
    assert ready.wait(60)
    yield address[0], storage
    token, scope = ends[0]
    trio.from_thread.run_sync(scope.cancel, trio_token=token)
    thread.join(60)


def test_write_to_a_running_device(device: tuple[str, MemoryStorage]) -> None:
    address, storage = device
    out = done("write", "image", "--device", address)
    assert out == f"{address}: 16384 bytes written to 0x100000 of MX25R3235F\n"
    assert storage.read(0x100000, 16384) == Path("image").read_bytes()
    assert not storage.read(0, 0x100000).strip(b"\xff")


def test_read_from_a_running_device(device: tuple[str, MemoryStorage]) -> None:
    address, storage = device
    storage.write(0x100000, Path("image").read_bytes())
    out = done("read", "--device", address, "--size", "16K", "--output", "f")
    assert out == "f: 16384 bytes from 0x100000 of MX25R3235F\n"
    assert Path("f").read_bytes() == Path("image").read_bytes()


def test_device_that_is_not_there() -> None:
    assert "no serprog server at localhost:1" in failed(1, "write", "image", "--device", "localhost:1")


# The command itself.


def test_every_command_has_examples() -> None:
    assert "Exit codes: 0 done and the same, 1 failed or different, 2 wrong usage" in done("--help")
    for name in main.commands:
        assert f"aisrv-flash {name} " in done(name, "--help").partition("Examples:")[2], name


def test_error_is_one_line_without_a_traceback() -> None:
    run = run_process([*FLASH, "inspect", "model"])
    assert (run.returncode, run.stdout, run.stderr.count("\n")) == (1, "", 1)
    assert run.stderr.startswith("aisrv-flash: model: no version word")


def test_loading_the_command_loads_nothing_heavy() -> None:
    program = "import sys, flash_server.cli; print(*sys.modules)"
    run = run_process([sys.executable, "-c", program], check=True)
    assert not {"numpy", "rich", "trio", "flatbuffers"} & set(run.stdout.split())
