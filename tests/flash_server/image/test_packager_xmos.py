"""XMOS's own packer against ours: `generate_flash` of PyPI's `xmos-ai-tools`, unmodified, in its environment.

Its license keeps it out of this project: it is used where it is installed in this environment, or in the one
whose Python `AISRV_XMOS_PYTHON` names.
"""

import json
import random
import subprocess
from pathlib import Path

import pytest

from flash_server.image import EngineImage, Generation, ImageFormat, parse
from flash_server.image.image_file import EngineFiles
from flash_server.image.packager import pack
from tests.support.peers.xcore_tools import python_with

TIMEOUT = 60

PROGRAM = """
import json, sys
from xmos_ai_tools.xformer import generate_flash
for output, models, params in json.load(sys.stdin):
    generate_flash(output_file=output, model_files=models, param_files=params)
"""

RANDOM = random.Random(1)

CASES: dict[str, list[tuple[bytes | None, bytes | None]]] = {
    "one engine": [(RANDOM.randbytes(1000), RANDOM.randbytes(3000))],
    "no parameters": [(RANDOM.randbytes(1000), None)],
    "no model": [(None, RANDOM.randbytes(10))],
    "nothing at all": [(None, None)],
    "odd sizes": [(RANDOM.randbytes(size), RANDOM.randbytes(7 - size)) for size in range(1, 7)],
    "some empty": [
        (RANDOM.randbytes(5), b""),
        (b"", b""),
        (b"", RANDOM.randbytes(513)),
        (RANDOM.randbytes(512), None),
    ],
    "forty engines": [(RANDOM.randbytes(count), RANDOM.randbytes(count * 3)) for count in range(40)],
}


@pytest.fixture(scope="module")
def xmos_python() -> str:
    """A Python that has `xmos-ai-tools`."""
    return python_with("xmos_ai_tools.xformer", "generate_flash")


@pytest.fixture(scope="module")
def packed(
    xmos_python: str, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, tuple[Path, list[EngineFiles]]]:
    """Each case packed by XMOS's packer: its file, and the files that went in; a missing one is "-"."""
    made: dict[str, tuple[Path, list[EngineFiles]]] = {}
    jobs = []
    for name, engines in CASES.items():
        directory = tmp_path_factory.mktemp("xmos")
        files = []
        for number, (model, parameters) in enumerate(engines):
            paths = []
            for label, data in (("model", model), ("parameters", parameters)):
                path = directory / f"{label}{number}"
                if data is not None:
                    path.write_bytes(data)
                paths.append(None if data is None else path)
            files.append(EngineFiles(*paths))
        made[name] = (directory / "xmos.bin", files)
        jobs.append(
            (
                str(made[name][0]),
                [str(each.model or "-") for each in files],
                [str(each.parameters or "-") for each in files],
            )
        )
    subprocess.run(
        [xmos_python, "-c", PROGRAM], input=json.dumps(jobs), text=True, timeout=TIMEOUT, check=True
    )
    return made


@pytest.mark.parametrize("name", [name for name in CASES if name != "nothing at all"])
def test_same_file_for_the_same_inputs(
    name: str, packed: dict[str, tuple[Path, list[EngineFiles]]], tmp_path: Path
) -> None:
    theirs, files = packed[name]
    pack(files, tmp_path / "ours.bin")
    assert (tmp_path / "ours.bin").read_bytes() == theirs.read_bytes()


@pytest.mark.parametrize("name", list(CASES))
def test_its_file_parses(name: str, packed: dict[str, tuple[Path, list[EngineFiles]]]) -> None:
    found = parse(packed[name][0].read_bytes())
    assert ImageFormat(found.generation, found.swapped is True) == ImageFormat(Generation.FAST, True)
    assert found.engines == tuple(
        EngineImage(model or b"", parameters or b"", b"", b"") for model, parameters in CASES[name]
    )
