"""Coverage-guided fuzzing of the readers of files, with Atheris where it is installed: `pip install atheris`.

Each reader runs in a process of its own, from the sound files on, and may raise the error of its kind alone.
"""

import importlib
import re
import subprocess
import sys
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from tests.soak.check import Check, Figures
from tests.support.paths import ROOT

MISSING: Final = "Atheris is not installed: pip install atheris"
LONGEST: Final = 65536
"""Bytes of an input."""
SLOW: Final = 20
"""Seconds that no input may take, on a busy machine."""
KINDS: Final[tuple[str, ...]] = (
    "image",
    "boot",
    "parameters",
    "board",
    "xn board",
    "pack",
    "capture",
    "relocatable",
    "model",
)


def fuzz(kind: str, arguments: list[str]) -> None:
    """Fuzz one reader in this process; never returns."""
    atheris = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["aisrv", "flash_server", "phy"]):
        files = importlib.import_module("tests.soak.files")
    reader = files.READERS[kind]
    folder = Path(arguments[-1])
    originals, scratch = folder / "originals", folder / "scratch"
    originals.mkdir()
    scratch.mkdir()
    for number, data in enumerate(reader.originals):
        (originals / str(number)).write_bytes(data)

    def read(data: bytes) -> None:
        with suppress(reader.error):
            reader.read(data, scratch)

    atheris.Setup([sys.argv[0], *arguments[:-1], str(originals)], read)
    atheris.Fuzz()


def run_kind(kind: str, seconds: int, seed: int) -> dict[str, int]:
    """Fuzz one reader for so many seconds in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "max_total_time": seconds,
            "seed": seed + 1,  # 0 is one of its own choice
            "max_len": LONGEST,
            "timeout": SLOW,
            "rss_limit_mb": 2048,
            "artifact_prefix": f"{folder}/",
        }
        arguments = [f"-{name}={value}" for name, value in options.items()]
        done = subprocess.run(
            [sys.executable, "-m", "tests.soak.guided", kind, *arguments, folder],
            cwd=ROOT,
            capture_output=True,
            check=False,
        )
        errors = (done.stdout + done.stderr).decode(errors="replace")
        crashes = [path.read_bytes().hex() for path in Path(folder).iterdir() if path.is_file()]
        assert done.returncode == 0, f"{kind}, seed {seed}: {errors[-3000:]}\n{crashes}"
        runs = re.search(r"Done (\d+) runs", errors)
        covered = re.findall(r"cov: (\d+)", errors)
        assert runs is not None, errors[-2000:]
        return {"runs": int(runs[1]), "branches": int(covered[-1])}


def run(size: int, seed: int) -> Figures:
    """Fuzz for so many seconds: all readers, one after the other, or one where there is no time for all."""
    seconds, kinds = size // len(KINDS), KINDS
    if not seconds:
        seconds, kinds = size, (KINDS[seed % len(KINDS)],)
    return {kind: run_kind(kind, seconds, seed) for kind in kinds}


CHECK: Final = Check(
    "guided",
    "coverage-guided fuzzing of the readers of files",
    "seconds",
    1080,
    1,
    20,
    run,
    needs=lambda: "" if find_spec("atheris") else MISSING,
)

if __name__ == "__main__":
    fuzz(sys.argv[1], sys.argv[2:])
