"""All files that commands write for their users: whole or not at all, and each is named.

tests/house/test_file_writers.py has the functions that write files.
"""

import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from click.testing import CliRunner, Result
from flatbuffers import flexbuffers

from aisrv import digits
from aisrv.attach.background import BackgroundDevice
from aisrv.board import Board, SensorSpec
from aisrv.cli.demo import example_files
from aisrv.inference.process.inline import inline
from aisrv.terminal.file_types import FOLDER, NEW_FILE
from host_tools.client import AiServer
from tests.support.command_tree import commands_of
from tests.support.main_commands import MAINS
from tests.support.models.relocatable import needs_compiler
from tests.support.paths import ROOT

RECORDINGS: Final = ("pcap", "vcd", "gpio_vcd", "pins_vcd", "trace", "xscope", "tensor_folder")
"""Options of files that have what was recorded so far; `test_observers` has the tensors, one by one."""
CHIPS: Final = ("chip", "flash")
"""Options of the files of flash chips, whose writes have a journal."""


def _file_options() -> set[tuple[str, str]]:
    """Return each command, with each of its options that names a file or a folder to write."""
    return {
        (" ".join((program, *names)), param.name or "")
        for program, main in MAINS.items()
        for names, command in commands_of(main)
        for param in command.params
        if param.type in (NEW_FILE, FOLDER) and param.name not in (*RECORDINGS, *CHIPS)
    }


CALLS: Final = {
    ("aisrv demo", "files"): "--files . ",
    ("aisrv model plan", "svg"): "digits.tflite --svg written",
    ("aisrv model plan", "png"): "digits.tflite --png written",
    ("aisrv graph compile", "output"): "graph.txt --output written",
    ("aisrv graph draw", "svg"): "graph.txt --svg written",
    ("aisrv model show", "svg"): "digits.tflite --svg written",
    ("aisrv profile", "html"): "digits.tflite --html written",
    ("aisrv sweep", "html"): "sweep.toml --html written",
    ("aisrv evaluate", "picture"): "digits.tflite digits --show --png written",
    ("aisrv-host infer", "output"): "seven.npy --output written",
    ("aisrv-host read", "output"): "0 --output written",
    ("aisrv-host raw", "output"): "GET_OUTPUT_TENSOR --output written",
    ("aisrv-host frame", "file"): "written",
    ("aisrv-flash boot-image", "output"): "digits.tflite --version 1 --output written",
    ("aisrv-flash pack", "output"): "--engine model=digits.tflite --output written",
    ("aisrv-flash unpack", "output"): "image --output .",
    ("aisrv-flash params", "output"): "blob.params --output written",
    ("aisrv-flash read", "output"): "--chip chip --output written",
    ("aisrv-flash reloc build", "output"): "digits.tflite --output written",
    ("aisrv-flash reloc kernels", "output"): "--output written",
}
"""A call of each, in a folder with the files below."""

OUTPUTS: Final = {"aisrv demo": "seven.npy", "aisrv-flash unpack": "engine0.model"}
"""What the commands write that take a folder; the others write `written`."""


def test_every_option_of_a_file_is_called() -> None:
    assert _file_options() == set(CALLS)


@pytest.fixture(scope="module")
def device() -> Iterator[str]:
    sensor = SensorSpec(1, "pattern:bars", "rgb", 16, 8)
    with BackgroundDevice(Board(sensor=sensor), runner=inline) as background:
        address = f"usbip:{background.usbip_address}"
        with AiServer.open(address) as server:
            server.load_model(digits.model_bytes())
            server.run(digits.test_images()[0].image)
            server.acquire_single()
        yield address


def _run(name: str, words: str) -> Result:
    program, *subcommands = name.split()
    return CliRunner().invoke(MAINS[program], [*subcommands, *words.split()])


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what commands read."""
    folder = tmp_path_factory.mktemp("inputs")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name, content in example_files().items():
            Path(name).write_bytes(content)
        Path("graph.txt").write_text((ROOT / "examples" / "graph" / "digits.txt").read_text())
        Path("sweep.toml").write_text("models = ['digits.tflite']")
        builder = flexbuffers.Builder()
        with builder.Vector():
            builder.Blob(b"parameters")
        Path("blob.params").write_bytes(builder.Finish())
        assert _run("aisrv-flash pack", "--engine model=digits.tflite --output image").exit_code == 0
        assert _run("aisrv-flash write", "image --chip chip").exit_code == 0
    return folder


@pytest.fixture
def call(
    device: str, inputs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], Result]:
    """Call a command in a folder with inputs."""
    shutil.copytree(inputs, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AISRV_DEVICE", device)
    return _run


@contextmanager
def full_disk() -> Iterator[None]:
    """Refuse each byte that this process would write to a file."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize("option", CALLS, ids="-".join)
def test_a_command_names_the_file_that_it_wrote(
    option: tuple[str, str], call: Callable[[str, str], Result]
) -> None:
    if "reloc" in option[0]:
        needs_compiler()
    result = call(option[0], CALLS[option])
    assert result.exit_code == 0, result.output
    name = OUTPUTS.get(option[0], "written")
    assert name in result.output
    assert Path(name).stat().st_size > 0


@pytest.mark.parametrize(
    "option",
    [option for option in CALLS if "reloc" not in option[0]],  # the compiler would fail first
    ids="-".join,
)
def test_a_file_that_cannot_be_written_stays_as_it_was(
    option: tuple[str, str], call: Callable[[str, str], Result]
) -> None:
    name = OUTPUTS.get(option[0], "written")
    Path(name).write_bytes(b"as it was")
    before = sorted(Path().iterdir())
    with full_disk():
        result = call(option[0], CALLS[option])
    assert result.exit_code in (1, 2)
    assert "File too large" in result.stderr.splitlines()[-1]
    assert Path(name).read_bytes() == b"as it was"
    assert sorted(Path().iterdir()) == before
