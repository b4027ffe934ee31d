"""Files that are read whole, and that nothing in the product reads a file in another way."""

import ast
import os
import re
import tracemalloc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from aisrv.values.regular_file import opened_regular, read_regular
from tests.support.paths import ROOT, product_sources

OTHERS = {
    "aisrv/values/addons.py: open(os.path.join(folder, path), 'rb')": "entry points of installed packages",
    "aisrv/digits/__init__.py: files(__name__).joinpath(name).read_bytes": "a file of the package",
    "aisrv/addons/kernels/backends/native/library.py: (FOLDER / name).read_bytes": "a file of the package",
    "aisrv/values/extras.py: distribution('aisrv').read_text": "pip's record of the package",
    "aisrv/inference/interpreter.py: (Path(aisrv.__file__).parent / _WARM_UP_MODEL).read_bytes": (
        "a file of the package, read in a worker"
    ),
    "aisrv/addons/kernels/images/structures.py: (files(__package__) / 'c' / 'network.h').read_text": (
        "a file of the package"
    ),
    "aisrv/addons/kernels/images/backend.py: (files(__package__) / 'images' / IMAGE).read_bytes": (
        "a file of the package"
    ),
    "aisrv/addons/evaluate/inputs/front_ends.py: files(__package__).joinpath(_PREPROCESSOR).read_bytes": (
        "a file of the package"
    ),
    "aisrv/addons/web/server.py: path.read_bytes": "files of the package",
    "aisrv/addons/captures/wireshark_command.py: DISSECTOR.read_bytes": "a file of the package",
    "aisrv/inference/process/sandbox_layers.py: Path('/proc/self/uid_map').read_text": "the kernel's",
    "aisrv/addons/firmware/tile_process.py: Path(f'/proc/{self._process.pid}/statm').read_text": (
        "the kernel's"
    ),
    "aisrv/attach/usbip/vhci.py: path.read_text": "the kernel's, in sysfs",
    "host_tools/transports/spi/transport.py: BUFSIZ_FILE.read_text": "the kernel's, in sysfs",
    "host_tools/standins/spidev.py: open(BUFSIZ_FILE)": "the kernel's, in sysfs, in programs of others",
    "aisrv/attach/preload/trial.py: _note(trial).read_text": "a note of ours in a private directory",
    "aisrv/inference/process/sandbox.py: os.open": "a place for Landlock, which is not read",
    "aisrv/attach/preload/tree.py: os.open": "a device node",
    "aisrv/attach/preload/tree.py: (self._home(place) / 'uevent').read_text": "a file of ours",
    "aisrv/attach/spidev/cuse.py: os.open": "a device node",
    "host_tools/standins/launcher.py: os.open": "the terminal",
    "host_tools/standins/spidev.py: os.open": "a device node, to have its error",
    "aisrv/values/private_directory.py: os.open": "locks, which are not read",
    "aisrv/terminal/command_group.py: os.open": "/dev/null",
    "aisrv/values/whole_file.py: path.open('r+b')": "locked, and not read",
    "flash_server/chip/storage.py: os.open": "checked there: it is locked before, and written",
    "aisrv/values/regular_file.py: os.open": "what all others use",
    "aisrv/values/untrusted_picture.py: Image.open": "of an open regular file, or of bytes in memory",
    "aisrv/addons/evaluate/data/urls.py: files.open(place, 'rb')": "no local file, and up to a size",
    "aisrv/addons/evaluate/inputs/sounds.py: wave.open": "of bytes in memory",
    "aisrv/sensors/sources/samples.py: wave.open": "of an open regular file",
    "aisrv/addons/pins/peripherals/i2s_format.py: wave.open": "of an open regular file",
    "aisrv/addons/firmware/inline_assembly.py: _ASSEMBLER.read_text": "a file of the package",
    "aisrv/addons/firmware/compiler.py: path.read_bytes": "files of the package",
    "aisrv/addons/firmware/host_assembler.py: Path(each).read_text": "what the compiler wrote",
    "aisrv/addons/firmware/whole_program.py: Path('/proc/thread-self/stat').read_text": "the kernel's",
    "aisrv/addons/kernels/backends/native/team.py: groups.read_text": "the kernel's",
    "aisrv/addons/kernels/backends/native/team.py: (group / 'cpu.max').read_text": "the kernel's",
    "flash_server/commands/options.py: Image.open": "a flash image, which is mapped by `map_file`",
    "flash_server/commands/chip.py: Image.open": "a flash image, which is mapped by `map_file`",
    "flash_server/commands/pack.py: Image.open": "a flash image, which is mapped by `map_file`",
    "aisrv/sensors/sources/video.py: cv2.VideoCapture": "by its name alone, which was checked before",
}
"""What reads by itself: place and call, and why."""

_OF_A_PATH = {"read_text", "read_bytes"}
_BY_NAME = {
    "os.open",
    "Image.open",
    "wave.open",
    "tarfile.open",
    "gzip.open",
    "np.load",
    "np.fromfile",
    "np.memmap",
    "np.loadtxt",
    "np.genfromtxt",
    "cv2.VideoCapture",
    "cv2.imread",
}
_READING = {"open", *_OF_A_PATH, *(name.rpartition(".")[2] for name in _BY_NAME)}
_OF_FILES = {"mode", "encoding", "newline", "buffering", "errors"}
"""Parameters of Path.open, which other methods of that name lack."""


def reads(tree: ast.AST) -> Iterator[str]:
    """Yield each call that opens a file by its name and does not only write it."""
    entered = {
        id(item.context_expr) for node in ast.walk(tree) if isinstance(node, ast.With) for item in node.items
    }
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        if getattr(node.func, "attr", getattr(node.func, "id", "")) not in _READING:
            continue
        name = ast.unparse(node.func)
        if name in _BY_NAME or (name.rpartition(".")[2] in _OF_A_PATH and "." in name):
            yield name
        elif name != "open" and not (name.endswith(".open") and _is_of_a_path(node, id(node) in entered)):
            continue
        elif not set(_mode(node)) & set("wxa") or "+" in _mode(node):
            yield ast.unparse(node)


def _is_of_a_path(call: ast.Call, entered: bool) -> bool:
    """Whether a call of a method `open` is one of Path, by its arguments."""
    if not (call.args or call.keywords):
        return entered
    return bool(_mode(call)) or any(each.arg in _OF_FILES for each in call.keywords)


def _mode(call: ast.Call) -> str:
    for each in (*call.args, *(each.value for each in call.keywords if each.arg == "mode")):
        if isinstance(each, ast.Constant) and re.fullmatch("[rwxabt+]+", str(each.value)):
            return str(each.value)
    return ""


def test_product_reads_files_through_read_regular() -> None:
    """Whatever is named by a user may be a pipe, which waits, or a device, which never ends."""
    found = set()
    for path, source in product_sources(rf"\b({'|'.join(_READING)})\(").items():
        for call in reads(ast.parse(source)):
            found.add(f"{path.relative_to(ROOT).as_posix()}: {call}")
    assert found - OTHERS.keys() == set(), "use read_regular or opened_regular of aisrv.values.regular_file"
    assert OTHERS.keys() - found == set(), "is no more"


@pytest.mark.parametrize(
    "text",
    [
        "path.read_text()",
        "path.read_bytes()",
        "open(name)",
        "open(name, 'rb')",
        "path.open('rb')",
        "path.open('r+b')",
        "path.open(mode='r')",
        "path.open(encoding='utf-8')",
        "with path.open() as file: pass",
        "np.load(path)",
        "Image.open(path)",
        "os.open(path, os.O_RDONLY)",
    ],
)
def test_check_notices_a_read(text: str) -> None:
    assert len(list(reads(ast.parse(text)))) == 1


@pytest.mark.parametrize(
    "text", ["path.open('wb')", "open(name, 'x')", "AiServer.open(device)", "node.open()"]
)
def test_check_leaves_what_is_no_read(text: str) -> None:
    assert list(reads(ast.parse(text))) == []


def test_regular_file_is_read_whole(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    assert read_regular(tmp_path / "f", 3) == b"abc"
    with opened_regular(tmp_path / "f") as file:
        assert file.read(2) == b"ab"


def test_larger_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abcd")
    with pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(tmp_path / "f", 3)


@contextmanager
def growing(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file of which there is a byte more each time that somebody has asked for its size."""
    real = os.fstat

    def grown(descriptor: int) -> os.stat_result:
        status = real(descriptor)
        with path.open("ab") as file:
            file.write(b"d")
        return status

    with monkeypatch.context() as patch:
        patch.setattr(os, "fstat", grown)
        yield


def test_file_that_grows_while_it_is_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    with growing(tmp_path / "f", monkeypatch), pytest.raises(OSError, match="larger than 3 bytes"):
        read_regular(tmp_path / "f", 3)


def test_no_more_memory_is_taken_than_there_are_bytes(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    tracemalloc.start()
    try:
        assert read_regular(tmp_path / "f") == b"abc"
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_file_that_grows_within_the_bound_is_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "f").write_bytes(b"abc")
    with growing(tmp_path / "f", monkeypatch):
        data = read_regular(tmp_path / "f")
    assert data == (tmp_path / "f").read_bytes()


def test_pipe_and_endless_device_are_refused_at_once(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        with pytest.raises(OSError, match="not a regular file"):
            read_regular(path)
