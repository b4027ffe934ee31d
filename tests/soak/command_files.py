"""Files that are none, given to each parameter of each command that takes one, by names that are no text.

Each command ends with exit code 1 or 2 and one line on stderr, besides click's usage: no traceback, and no
control character of the file or of its name. Which parameters there are, the commands say themselves.
"""

import io
import os
import random
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import click
import numpy as np

from aisrv import digits
from aisrv.terminal.file_types import RegularFile
from flash_server.boot.boot_image import build_boot_image
from flash_server.commands.options import EngineFilesType
from flash_server.image import DataPartition, EngineImage, Generation
from tests.soak.check import Check, Figures
from tests.soak.reader import mutant
from tests.support.command_tree import commands_of
from tests.support.main_commands import MAINS
from tests.support.models.relocatable import DIGITS as RELOCATABLE_DIGITS
from tests.support.oracles.graph_golden import COMPUTER, PAIRS
from tests.support.paths import ROOT
from tests.support.programs import AISRV, FLASH, HOST, run_process

FILE: Final = "FILE"
"""What stands in a case for the file that is none."""
GRAPH: Final = f"{PAIRS['c1'].text}"
PLATFORM: Final = f"--platform {COMPUTER}"
RUN: Final = "--port 0 --until-eof"

CASES: Final[Mapping[str, str]] = {
    "aisrv attach --board": "--board FILE.toml",
    "aisrv attach --model": "--model FILE",
    "aisrv attach --web-token": "--web 0 --web-token FILE",
    "aisrv boards board": "FILE.toml",
    "aisrv evaluate model": "FILE digits",
    "aisrv evaluate data": "digits.tflite FILE.npz",
    "aisrv evaluate --labels": "digits.tflite digits --labels FILE",
    "aisrv evaluate --input": "digits.tflite digits --input FILE",
    "aisrv evaluate --against": "digits.tflite digits --limit 4 --against FILE.tflite",
    "aisrv evaluate --tls-ca": "digits.tflite digits --dask tls://127.0.0.1:1 --wait 0 --tls-ca FILE",
    "aisrv evaluate --tls-cert": "digits.tflite digits --dask tls://127.0.0.1:1 --wait 0 --tls-cert FILE",
    "aisrv evaluate --tls-key": "digits.tflite digits --dask tls://127.0.0.1:1 --wait 0 --tls-key FILE",
    "aisrv exec --board": "--board FILE.toml -- true",
    "aisrv exec --model": "--model FILE -- true",
    "aisrv exec --web-token": "--web 0 --web-token FILE -- true",
    "aisrv firmware run files": "FILE.c",
    "aisrv firmware run --tile1": "main.c --tile1 FILE.c",
    "aisrv firmware run --pins": "main.c --pins FILE.py:pins",
    "aisrv firmware run --xscope-config": "main.c --xscope-config FILE",
    "aisrv firmware run --xscope-in": "missing.c --xscope-in FILE",
    "aisrv fleet plan model": "FILE digits",
    "aisrv fleet plan data": "digits.tflite FILE.npz",
    "aisrv fleet plan --input": "digits.tflite digits --input FILE",
    "aisrv fleet plan --labels": "digits.tflite digits --labels FILE",
    "aisrv graph check text": f"FILE {PLATFORM}",
    "aisrv graph check --platform": f"{GRAPH} --platform FILE",
    "aisrv graph compile text": f"FILE {PLATFORM}",
    "aisrv graph compile --platform": f"{GRAPH} --platform FILE",
    "aisrv graph decompile words": f"FILE {PLATFORM}",
    "aisrv graph decompile --platform": f"{PAIRS['c1'].words} --platform FILE",
    "aisrv graph draw text": f"FILE {PLATFORM}",
    "aisrv graph draw --platform": f"{GRAPH} --platform FILE",
    "aisrv graph list words": f"FILE {PLATFORM}",
    "aisrv graph list --platform": f"{PAIRS['c1'].words} --platform FILE",
    "aisrv graph run graph": f"FILE {PLATFORM}",
    "aisrv graph run --io": f"{GRAPH} {PLATFORM} --io 0=FILE",
    "aisrv graph run --model": f"{GRAPH} {PLATFORM} --model FILE",
    "aisrv graph run --platform": f"{GRAPH} --platform FILE",
    "aisrv model diff model": "FILE",
    "aisrv model diff --input": "digits.tflite --input FILE",
    "aisrv model plan model": "FILE",
    "aisrv model show file": "FILE",
    "aisrv model show --board": "digits.tflite --board FILE.toml",
    "aisrv profile models": "FILE",
    "aisrv profile --config": "--config FILE",
    "aisrv replay capture": "FILE --board single",
    "aisrv replay --board": "capture.pcapng --board FILE.toml",
    "aisrv run --board": "--board FILE.toml --until-eof",
    "aisrv run --model": f"{RUN} --model FILE",
    "aisrv run --graph": f"{RUN} --graph FILE",
    "aisrv run --graph-io": f"{RUN} --graph {GRAPH} --graph-platform {COMPUTER} --graph-io 0=FILE",
    "aisrv run --graph-platform": f"{RUN} --graph {GRAPH} --graph-platform FILE",
    "aisrv run --web-token": f"{RUN} --web 0 --web-token FILE",
    "aisrv sweep file": "FILE",
    "aisrv trace summary file": "FILE",
    "aisrv-host bench --model": "bench --model FILE",
    "aisrv-host diff inputs": "diff virtual virtual FILE --model digits.tflite",
    "aisrv-host diff --model": "diff virtual virtual --model FILE",
    "aisrv-host infer inputs": "infer FILE.png --model digits.tflite",
    "aisrv-host infer --model": "infer input.npy --model FILE",
    "aisrv-host infer --labels": "infer input.npy --model digits.tflite --labels FILE",
    "aisrv-host jacdac dump file": "jacdac dump FILE",
    "aisrv-host load model": "load FILE",
    "aisrv-host raw --file": "raw 0x83 --file FILE",
    "aisrv-host read --model": "read --model FILE",
    "aisrv-host timings --model": "timings --model FILE",
    "aisrv-host upgrade image": "upgrade FILE",
    "aisrv-host web --web-token": "web --web-token FILE",
    "aisrv-host write file": "write FILE.npy --model digits.tflite",
    "aisrv-host write --model": "write input.npy --model FILE",
    "aisrv-flash boot --factory": "boot --chip chip.bin --factory FILE",
    "aisrv-flash boot --upgrade": "boot --chip chip.bin --upgrade FILE",
    "aisrv-flash boot-image payload_file": "boot-image FILE --output payload.bin",
    "aisrv-flash diff first": "diff FILE image.bin",
    "aisrv-flash diff second": "diff image.bin FILE",
    "aisrv-flash inspect image_file": "inspect FILE",
    "aisrv-flash pack --engine": "pack --engine FILE --output out.bin",
    "aisrv-flash pack --config": "pack --config FILE --output out.bin",
    "aisrv-flash params params_file": "params FILE --output params.bin",
    "aisrv-flash reloc build model_file": "reloc build FILE --output built.bin",
    "aisrv-flash reloc fetches image_file": "reloc fetches FILE",
    "aisrv-flash reloc info image_file": "reloc info FILE",
    "aisrv-flash reloc info --weights": "reloc info relocatable.bin --weights FILE",
    "aisrv-flash unpack image_file": "unpack FILE --output parts",
    "aisrv-flash verify image_file": "verify FILE",
    "aisrv-flash verify --engine": "verify image.bin --engine FILE",
    "aisrv-flash write image_file": "write FILE --chip chip.bin",
}

NO_FILES: Final = frozenset(
    (
        *("--serial", "--web-host", "--host", "--spi-host", "--flash-host", "--jacdac-host"),
        *("--jacdac-origin", "--jacdac-hub", "--device", "--dask", "--on", "--score", "--metric"),
        *("--require", "--define", "--cflags", "--debugger", "--kernels", "--of", "--command", "--shape"),
        *("--part", "--name", "devices", "program", "code"),
    )
)
"""Parameters that are texts, and name no file."""

PROGRAMS: Final = {"aisrv": AISRV, "aisrv-host": [*HOST, "--device", "virtual"], "aisrv-flash": FLASH}
SEVERAL_LINES: Final = ("aisrv graph", "aisrv firmware", "aisrv run --graph")
"""Commands that say all that is wrong with a text, or what a compiler says."""
NAME: Final = b"a\xff\x1b[2J"
"""The name of a hostile file, without its ending: no UTF-8, and it clears a terminal."""
USAGE: Final = ("Usage: ", "Try ")
CONTROLS: Final = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def parameters() -> Iterator[str]:
    """Yield all parameters of commands that are files, and texts of which nobody said that they are none."""
    for program, group in MAINS.items():
        for words, command in commands_of(group, program):
            for parameter in command.params:
                name = max(parameter.opts, key=len)
                is_text = isinstance(parameter.type, click.types.StringParamType) and name not in NO_FILES
                if is_text or isinstance(parameter.type, RegularFile | EngineFilesType):
                    yield " ".join((*words, name))


def originals() -> list[bytes]:
    """Files that are sound, of the kinds that most commands take."""
    model = digits.model_bytes()
    archive = io.BytesIO()
    np.savez(archive, x=np.zeros((4, 64), np.int8), y=np.zeros(4, np.int8))
    return [
        model,
        DataPartition((EngineImage(model),), Generation.FAST).build(),
        build_boot_image(1, b"factory" * 40),
        archive.getvalue(),
        PAIRS["c1"].text.read_bytes(),
        PAIRS["c1"].words.read_bytes(),
        COMPUTER.read_bytes(),
        RELOCATABLE_DIGITS.read_bytes(),
        (ROOT / "aisrv/board/boards/single.toml").read_bytes(),
        next((ROOT / "tests/recordings").glob("*.pcapng")).read_bytes(),
    ]


def sound_files(folder: Path) -> None:
    """Write what the cases name beside the file that is none."""
    files = originals()
    (folder / "digits.tflite").write_bytes(files[0])
    (folder / "image.bin").write_bytes(files[1])
    (folder / "relocatable.bin").write_bytes(files[7])
    (folder / "capture.pcapng").write_bytes(files[9])
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    np.save(folder / "input.npy", np.zeros((1, 8, 8, 1), np.int8))


def contents(case: str, number: int) -> bytes:
    """Return what is in the hostile file: nothing, noise, or a sound file that was cut or changed."""
    chance = random.Random(f"{case}:{number}")
    if number == 0:
        return b"\x1b[2J\0\xff = [\n" + chance.randbytes(300)
    if number == 1:
        return b""
    return mutant(chance.choice(originals()), chance, is_text=False)


def try_case(case: str, content: bytes, folder: Path) -> int:
    """Run a command with a file of this content, and return its exit code; AssertionError for its faults."""
    words = CASES[case].split()
    ending = next(word.partition(FILE)[2].partition(":")[0] for word in words if FILE in word)
    hostile = folder / os.fsdecode(NAME)
    hostile.with_name(f"{hostile.name}{ending}").write_bytes(content)
    program, *command = case.split()[:-1]
    filled = [word.replace(FILE, str(hostile)) for word in words]
    done = run_process([*PROGRAMS[program], *command, *filled], cwd=folder)
    told = f"{case}: {content[:40]!r}: exit code {done.returncode}\n{done.stderr}"
    assert "Traceback" not in done.stderr, told
    assert done.returncode in range(6), told
    assert not CONTROLS.search(done.stderr + done.stdout), f"control characters: {told!r}"
    lines = [line for line in done.stderr.splitlines() if line and not line.startswith(USAGE)]
    assert done.returncode == 0 or len(lines) == 1 or case.startswith(SEVERAL_LINES), told
    return done.returncode


def run(size: int, seed: int) -> Figures:
    """Run each command with so many files for each of its parameters."""
    codes: Counter[int] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sound_files(folder)
        for case in CASES:
            for number in range(size):
                codes[try_case(case, contents(case, seed * size + number), folder)] += 1
    return {f"exit code {code}": count for code, count in sorted(codes.items())}


CHECK: Final = Check(
    "command_files", "files that are none, to every parameter that takes one", "files each", 20, 1, 15, run
)
