"""Files of settings: read within bounds, refused without waiting where they are none."""

import os
import time
from pathlib import Path

import pytest

from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.toml_file import LARGEST_FILE, parse_toml, read_bounded, read_toml


def test_a_text_as_values_with_lines(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"[node]\r\n\r\ntiles = 2\r\n")
    file = read_toml(tmp_path / "a.toml")
    assert (file.values, file.directory) == ({"node": {"tiles": 2}}, tmp_path)
    assert str(file.error("wrong", ("node", "tiles"))) == f"{tmp_path}/a.toml:3: node.tiles: wrong"


def test_an_error_of_the_file_as_a_whole() -> None:
    error = parse_toml("a = 1", "a.toml").error("wrong")
    assert (str(error), error.path) == ("a.toml: wrong", ())


def test_an_error_of_a_key_with_other_characters() -> None:
    error = parse_toml("'a\\n' = 1", "a.toml").error("wrong", ("a\n", 0, "b"))
    assert (str(error), error.path) == ("a.toml:1: 'a\\n'[0].b: wrong", ("a\n", 0, "b"))


@pytest.mark.parametrize("size", [0, 1, 3, 4, 511, 512, 513, 1024])
def test_a_file_is_read_up_to_its_bound(tmp_path: Path, size: int) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"#" * size)
    assert read_bounded(path, size) == b"#" * size
    with pytest.raises(SettingsError) as error:
        read_bounded(path, size - 1)
    assert str(error.value) == f"{path}: larger than {size - 1} bytes"


def test_the_largest_file(tmp_path: Path) -> None:
    path = tmp_path / "large.toml"
    path.write_bytes(b"#" * LARGEST_FILE)
    assert read_toml(path).values == {}


def test_a_fifo_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(SettingsError) as error:
        read_bounded(tmp_path / "fifo", 10)
    assert str(error.value) == f"{tmp_path}/fifo: not a regular file"


def test_a_device_is_refused() -> None:
    with pytest.raises(SettingsError) as error:
        read_bounded(Path("/dev/zero"), 10)
    assert str(error.value) == "/dev/zero: not a regular file"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[node\n", "a.toml:1: Expected ']' at the end of a table declaration"),
        ("[node]\n\nclock = ", "a.toml:3: Invalid value"),
        ("a = " + "[" * 33, "a.toml: nested deeper than 32 levels"),
        (".".join("a" * 34) + " = 1", "a.toml: nested deeper than 32 levels"),
    ],
)
def test_what_is_no_toml(text: str, message: str) -> None:
    with pytest.raises(SettingsError) as error:
        parse_toml(text, "a.toml")
    assert str(error.value) == message


def test_the_deepest_text_is_read() -> None:
    assert parse_toml("a = " + "[" * 32 + "]" * 32, "a.toml").lines["a", 0] == 1
    assert parse_toml(".".join("a" * 33) + " = 1", "a.toml").lines[("a",) * 33] == 1


@pytest.mark.parametrize("key", ["a." * 30000 + "a", "'a' . " * 10000 + "a", '"a".' * 16000 + "a"])
def test_a_key_of_many_dots_is_refused_at_once(key: str) -> None:
    started = time.process_time()
    for text in (f"{key} = 1", f"[{key}]", f"a = {{ {key} = 1 }}"):
        with pytest.raises(SettingsError, match="nested deeper than 32 levels"):
            parse_toml(text, "a.toml")
    assert time.process_time() - started < 2
