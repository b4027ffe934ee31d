"""Every reader of files: it reads what is sound, and refuses the rest by the error of its kind."""

import ast
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Final

import pytest

from aisrv import digits
from tests.soak.files import READERS, try_file
from tests.support.models.hostile_graphs import try_manifest
from tests.support.paths import ROOT, product_sources

OPENERS: Final = ("read_regular", "opened_regular", "open_regular")
MUTANTS: Final = 25

BY_COMMANDS: Final = re.compile(
    r"aisrv/cli/|host_tools/commands/|aisrv/addons/\w+/(cli/|host/)?(\w*commands?|options|address|\w*_run)\.py"
)
"""Where commands read a parameter: `tests/soak/test_command_files.py` has a case for each."""

_INTEGRITY = "tests/addons/evaluate/folder/test_folder_integrity.py"

ELSEWHERE: Final = {
    "aisrv/board/toml_file.py _labels": "tests/board/test_toml_file.py",
    "aisrv/addons/graph/device.py _driver": "tests/addons/graph/test_device.py",
    "aisrv/addons/pins/device.py _read_bytes": "tests/addons/pins/test_device.py",
    "aisrv/addons/evaluate/data/mapped_rows.py opened": "tests/addons/evaluate/running/test_local_run.py",
    "aisrv/addons/evaluate/evaluation.py cpu_name": "tests/addons/evaluate/cli/test_evaluate.py",
    "aisrv/addons/evaluate/fleet/job.py _listed": "tests/addons/evaluate/fleet/test_job.py",
    "aisrv/addons/evaluate/fleet/job.py read_work": "tests/addons/evaluate/fleet/test_job.py",
    "aisrv/addons/evaluate/folder/hashes.py _read": _INTEGRITY,
    "aisrv/addons/evaluate/folder/hashes.py _read_hash": _INTEGRITY,
    "aisrv/addons/evaluate/folder/hashes.py read_list": _INTEGRITY,
    "aisrv/addons/evaluate/folder/hashes.py write_list": _INTEGRITY,
    "aisrv/addons/evaluate/folder/plan.py open_folder": _INTEGRITY,
    "aisrv/addons/firmware/compiler.py launcher": "tests/addons/firmware/test_confinement.py",
    "aisrv/addons/firmware/confinement.py _bits_of": "tests/addons/firmware/test_confinement.py",
    "aisrv/addons/firmware/pyxsim/runs.py run_under_checkers": "tests/addons/firmware/pyxsim",
    "aisrv/addons/evaluate/folder/parts.py _times": "tests/addons/evaluate/folder/test_parts.py",
    "aisrv/addons/evaluate/folder/plan.py input_values": "tests/addons/evaluate/folder/test_plan.py",
    "aisrv/addons/evaluate/folder/plan.py read_plan": "tests/addons/evaluate/folder/test_plan.py",
    "aisrv/addons/evaluate/inputs/front_ends.py front_end": "tests/addons/evaluate/inputs/test_front_ends.py",
    "aisrv/addons/evaluate/request.py load": "tests/soak/test_command_files.py",
    "aisrv/addons/evaluate/running/reader_process.py _content": "tests/addons/evaluate/running",
    "aisrv/addons/evaluate/sweep/cells.py read_models": "tests/addons/evaluate/sweep/test_sweep.py",
    "aisrv/addons/firmware/compiler.py _keep": "tests/addons/firmware/test_compiler.py",
    "aisrv/addons/firmware/compiler.py _key": "tests/addons/firmware/test_compiler.py",
    "aisrv/addons/firmware/pyxsim/testers.py __init__": "tests/addons/firmware/pyxsim/test_testers.py",
    "aisrv/addons/graph/compiler/compile.py load_graph": "tests/addons/graph/compiler",
    "aisrv/addons/kernels/images/compiler.py _compile": "tests/addons/kernels/images",
    "aisrv/addons/kernels/images/compiler.py _objects": "tests/addons/kernels/images",
    "aisrv/inference/interpreters/xcore_config.py _version": "tests/inference",
    "flash_server/chip/storage.py read_registers": "tests/flash_server/chip/test_storage.py",
    "host_tools/client.py load_model": "tests/host_tools/test_client.py",
    "host_tools/client.py use_model": "tests/host_tools/test_client.py",
    "host_tools/tensors/files.py read_model_file": "tests/soak/test_command_files.py",
}
"""Functions that open what a user did not name, or that a test of their own tries with what is damaged."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "digits.tflite").write_bytes(digits.model_bytes())
    return tmp_path


@pytest.mark.parametrize("kind", READERS)
def test_reader_reads_what_is_sound(kind: str, folder: Path) -> None:
    reader = READERS[kind]
    assert reader.originals
    for original in reader.originals:
        reader.read(original, folder)


@pytest.mark.parametrize("kind", READERS)
def test_reader_reads_or_refuses_what_was_changed(kind: str, folder: Path) -> None:
    found = {try_file(kind, number, 1, folder) for number in range(MUTANTS)}
    assert found <= {"read", "refused"}
    assert found


@pytest.mark.parametrize("kind", READERS)
def test_reader_reads_or_refuses_what_was_cut(kind: str, folder: Path) -> None:
    reader = READERS[kind]
    original = reader.originals[0]
    for size in {0, 1, 8, len(original) // 2, len(original) - 1}:
        try:
            reader.read(original[:size], folder)
        except reader.error as error:
            assert str(error)  # noqa: PT017 - both outcomes are right


def openers() -> Iterator[tuple[str, str]]:
    """Yield the file and the name of each function of the product that opens a file by its name."""
    for path, source in product_sources(rf"\b({'|'.join(OPENERS)})\(").items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                isinstance(call, ast.Call) and getattr(call.func, "id", "") in OPENERS
                for call in ast.walk(node)
            ):
                yield path.relative_to(ROOT).as_posix(), node.name


def run_functions(folder: Path) -> set[tuple[str, str]]:
    """Return the file and the name of each function that reading what is sound calls."""
    found = set()

    def called(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            found.add((frame.f_code.co_filename, frame.f_code.co_name))

    sys.setprofile(called)
    try:
        for reader in READERS.values():
            for original in reader.originals:
                reader.read(original, folder)
        with suppress(Exception):
            try_manifest(0, folder)
    finally:
        sys.setprofile(None)
    return found


def test_each_function_that_opens_a_file_is_run_by_a_reader(folder: Path) -> None:
    ran = run_functions(folder)
    missing = {
        f"{path} {name}"
        for path, name in openers()
        if (str(ROOT / path), name) not in ran
        and not (path.startswith("aisrv/values/") or BY_COMMANDS.match(path))
    }
    assert missing - ELSEWHERE.keys() == set(), "add a reader to tests/soak/data_readers.py"
    assert ELSEWHERE.keys() - missing == set(), "is run by a reader, or is no more"
    assert [each for each in ELSEWHERE.values() if not (ROOT / each).exists()] == []
