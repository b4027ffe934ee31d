"""Hostile graphs: mutants of texts, manifests and words, by a number, and what each one comes to."""

import random
import shutil
from pathlib import Path
from typing import Final

from aisrv.addons.graph.binary.words import parse_words, read_words, words_of
from aisrv.addons.graph.compiler.compile import compile_file, compile_text
from aisrv.addons.graph.compiler.decompile import DecompileError, decompile
from aisrv.addons.graph.compiler.dialect import OURS
from aisrv.addons.graph.compiler.public import PUBLIC
from aisrv.addons.graph.errors import MOST_ERRORS, TextError, WordsError
from aisrv.addons.graph.platform.manifests import Platform, load_platform
from tests.support.oracles.graph_golden import COMPUTER, FOLDER, PAIRS, SEED

PIECES: Final = (
    *("0", "-1", "1", "31", "32", "255", "65536", "4194304", "999999999999", "1e308", "nan", "0x", "h"),
    *("{", "}", "{1", "{0}", "{-1 1 0 9}", ";", "end", "node", "arc", "arc_input", "include", "subgraph s"),
    *(
        "label A",
        "script 0",
        "script_code",
        "node_parameters",
        "format_index 30",
        "format_nbchan 0",
        "arc_jitter_ctrl 1e300",
    ),
    *("mem_fill_pattern 9999999 1", "9 u64; 1", '1 c; "x', "65536 u8; 1", "node_malloc_add 999999999999 0"),
    *("\x00", "é", "#float", "jump", "[ r1 ]+"),
)
TEXTS: Final = (SEED, *(pair.text for pair in PAIRS.values()))
MANIFESTS: Final = (
    "stream_platform/computer/manifest/top_manifest_computer.txt",
    "stream_platform/computer/manifest/procmap_manifest_computer.txt",
    "stream_platform/computer/manifest/io_platform_data_in_1.txt",
    "stream_nodes/arm/filter/node_manifest_filter.txt",
    "stream_nodes/signal-processingFR/converter/node_manifest_converter.txt",
)


def computer() -> Platform:
    """The platform of the golden texts."""
    return load_platform(COMPUTER)


def mutant(text: str, generator: random.Random) -> str:
    """A text with a few words or lines changed, doubled, cut or moved."""
    lines = text.split("\n")
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(lines))
        change = generator.randrange(7)
        words = lines[at].split(" ")
        if change == 0:
            words[generator.randrange(len(words))] = generator.choice(PIECES)
            lines[at] = " ".join(words)
        elif change == 1:
            lines.insert(at, generator.choice(PIECES))
        elif change == 2:
            lines[at : at + 1] = []
        elif change == 3:
            lines.insert(generator.randrange(len(lines) + 1), lines[at])
        elif change == 4:
            lines = [*lines[:at], lines[at][: generator.randrange(len(lines[at]) + 1)]]
        elif change == 5 and lines[at]:
            place = generator.randrange(len(lines[at]))
            lines[at] = lines[at][:place] + chr(generator.randrange(1, 127)) + lines[at][place + 1 :]
        else:
            lines[at] += " " + generator.choice(PIECES)
        if not lines:
            lines = [""]
    return "\n".join(lines)


def try_text(number: int, platform: Platform) -> str:
    """Compile mutant `number` of a text: what came of it."""
    generator = random.Random(number)
    path = generator.choice(TEXTS)
    text = mutant(path.read_text(encoding="utf-8"), generator)
    try:
        compiled = compile_text(text, path, platform, (OURS, PUBLIC)[generator.random() < 0.5])
    except TextError as error:
        return _checked(error)
    assert read_words(compiled.words) == compiled.graph
    return "compiled"


def try_words(number: int, platform: Platform) -> str:
    """Read and decompile mutant `number` of words: what came of it."""
    generator = random.Random(number)
    pair = generator.choice(list(PAIRS.values()))
    words = parse_words(pair.words.read_text(encoding="utf-8"))
    for _ in range(generator.randint(1, 4)):
        at = generator.randrange(len(words))
        change = generator.randrange(4)
        if change == 0:
            words[at] ^= 1 << generator.randrange(32)
        elif change == 1:
            words[at] = generator.choice((0, 1, 0xFFFFFFFF, 0x3FF, generator.getrandbits(32)))
        elif change == 2:
            words = words[: at + 1]
        else:
            words[at:at] = words[at : at + generator.randint(1, 8)]
    place = 0
    try:
        graph = read_words(words)
    except WordsError as error:
        place = error.index
        return "refused"
    finally:
        assert 0 <= place <= len(words)
    assert words_of(graph) == words
    try:
        text = decompile(graph, platform)
    except DecompileError:
        return "read"
    try:
        compile_text(text, Path("again.txt"), platform)
    except TextError as error:
        _checked(error)
        return "decompiled"
    return "compiled again"


def try_manifest(number: int, folder: Path) -> str:
    """Compile a golden text with mutant `number` of a manifest, in a copy of the platform below `folder`."""
    generator = random.Random(number)
    root = folder / "p1"
    if not root.exists():
        shutil.copytree(FOLDER / "p1", root)
    path = root / generator.choice(MANIFESTS)
    original = path.read_text(encoding="utf-8")
    path.write_text(mutant(original, generator), encoding="utf-8")
    try:
        compile_file(PAIRS["c1"].text, root / MANIFESTS[0])
    except TextError as error:
        return _checked(error)
    finally:
        path.write_text(original, encoding="utf-8")
    return "compiled"


def _checked(error: TextError) -> str:
    assert 1 <= len(error.messages) <= MOST_ERRORS
    assert all(message.place.line >= 1 and message.place.file for message in error.messages)
    return "refused"
