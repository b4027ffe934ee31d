"""Platforms: the top manifest with its memory banks, processors and IOs, and the manifests of nodes."""

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Final

from aisrv.addons.graph.errors import Messages, Place, shown
from aisrv.addons.graph.platform.io_manifest import read_io
from aisrv.addons.graph.platform.node_manifest import read_node
from aisrv.addons.graph.platform.values import Bank, IoManifest, IoRow, NodeManifest
from aisrv.addons.graph.text.source import Line, integer, read_lines

LARGEST_COUNT: Final = 4096
"""Rows of a table in a manifest."""
SHIPPED_PLATFORM: Final = Path(__file__).parent / "top_manifest.txt"
"""Platform of graphs that name none: a tile's memory, ten IOs, the nodes by their public numbers."""


@dataclass
class Platform:
    """A platform: banks in the order of the procmap, nodes by name, IOs by IO_AL_idx."""

    path: Path
    banks: list[Bank] = field(default_factory=list)
    io_rows: dict[int, IoRow] = field(default_factory=dict)
    nodes: dict[str, NodeManifest] = field(default_factory=dict)
    _ios: dict[int, IoManifest] = field(default_factory=dict)

    @cached_property
    def node_names(self) -> dict[int, str]:
        """Names of nodes by NODE_IDX."""
        return {node.index: name for name, node in self.nodes.items()}

    def io(self, hwid: int, messages: Messages) -> IoManifest | None:
        """Return the manifest of an IO, read at its first use."""
        row = self.io_rows.get(hwid)
        if row is None:
            return None
        if hwid not in self._ios:
            self._ios[hwid] = read_io(row.path, row.place, messages)
        return self._ios[hwid]


def load_platform(path: Path) -> Platform:
    """Read a platform. Raises TextError."""
    messages = Messages()
    platform = read_platform(path, messages)
    messages.check()
    return platform


def read_platform(path: Path, messages: Messages) -> Platform:
    """Read the top manifest of a platform, its procmap and the manifests of its nodes."""
    platform = Platform(path)
    rows = _Rows(read_lines(path, Place(str(path), 1), messages), Place(str(path), 1), messages)
    folder = path.parent / ".."
    paths = [Path(os.path.normpath(folder / row.words[0])) for row in rows.take(rows.count("paths"), 1)]
    procmap = rows.file(paths, "the procmap")
    if procmap is not None:
        _read_procmap(platform, procmap, rows.place, messages)
    for row in rows.take(rows.count("IOs"), 5):
        file = rows.file_of(row, paths)
        numbers = rows.numbers(row, row.words[2:5])
        if file is None or numbers is None:
            continue
        if numbers[0] in platform.io_rows:
            messages.error(
                row.place, f"IO {numbers[0]} exists already, at {platform.io_rows[numbers[0]].place}"
            )
        platform.io_rows[numbers[0]] = IoRow(row.place, file, *numbers)
    for index, row in enumerate(rows.nodes()):
        file = rows.file_of(row, paths)
        if file is None:
            continue
        node = read_node(file, index, row.place, messages)
        if node.name in platform.nodes:
            messages.error(row.place, f"node {shown(node.name)} exists already")
        platform.nodes[node.name] = node
    return platform


class _Rows:
    """Reads the rows of a manifest without tags, one after the other."""

    def __init__(self, lines: list[Line], place: Place, messages: Messages) -> None:
        self.lines: Iterator[Line] = iter(lines)
        self.place = place
        self.messages = messages

    def next(self) -> Line | None:
        line = next(self.lines, None)
        if line is not None:
            self.place = line.place
        return line

    def count(self, what: str) -> int:
        """Read a row whose first word is a count."""
        line = self.next()
        value = integer(line.words[0]) if line else None
        if value is None or not 0 <= value <= LARGEST_COUNT:
            self.messages.error(self.place, f"expected the number of {what}, 0 to {LARGEST_COUNT}")
            return 0
        return value

    def take(self, count: int, words: int) -> Iterator[Line]:
        """Yield `count` rows, each with at least `words` words."""
        for index in range(count):
            line = self.next()
            if line is None:
                self.messages.error(self.place, f"the manifest ends after {index} of {count} rows")
                return
            if len(line.words) < words:
                self.messages.error(line.place, f"the row has {len(line.words)} fields: {words} are needed")
                continue
            yield line

    def numbers(self, line: Line, words: tuple[str, ...]) -> list[int] | None:
        values = [integer(word) for word in words]
        whole = [value for value in values if value is not None]
        if len(whole) != len(words):
            self.messages.error(
                line.place, f"the row has {' '.join(map(shown, words))} where numbers are expected"
            )
            return None
        return whole

    def file(self, paths: list[Path], what: str) -> Path | None:
        line = self.next()
        if line is None:
            self.messages.error(self.place, f"the manifest ends before {what}")
            return None
        return self.file_of(line, paths)

    def file_of(self, line: Line, paths: list[Path]) -> Path | None:
        """Return the file of a row that starts with the number of a path and a name."""
        index = integer(line.words[0])
        if index is None or len(line.words) < 2:
            self.messages.error(line.place, "the row starts with the number of a path and a file's name")
            return None
        if not 0 <= index < len(paths):
            self.messages.error(line.place, f"path {index} is not one of the {len(paths)} that are given")
            return None
        return Path(os.path.normpath(paths[index] / line.words[1]))

    def nodes(self) -> Iterator[Line]:
        """Yield the rows to the end; the first grammar counts them first."""
        is_first = True
        while (line := self.next()) is not None and line.words[0] != "end":
            is_count = is_first and not (len(line.words) > 1 and line.words[1].endswith(".txt"))
            is_first = False
            if not is_count:
                yield line


def _read_procmap(platform: Platform, path: Path, place: Place, messages: Messages) -> None:
    rows = _Rows(read_lines(path, place, messages), Place(str(path), 1), messages)
    first = rows.next()
    counts = [integer(word) for word in first.words[:4]] if first else []
    numbers = [value for value in counts if value is not None and 0 <= value <= LARGEST_COUNT]
    if len(numbers) < 3:
        messages.error(rows.place, "expected the numbers of architectures, processors, banks and offsets")
        return
    for row in rows.take(numbers[2], 9):
        values = rows.numbers(row, row.words[:9])
        if values is None:
            continue
        bank = Bank(*values)
        if not 0 <= bank.offset_id <= 63 or not 0 <= bank.size <= 1 << 32 or bank.vid < 0:
            messages.error(
                row.place, f"offset id {bank.offset_id}, VID {bank.vid} or size {bank.size} is wrong"
            )
        platform.banks.append(bank)
    if not platform.banks:
        messages.error(rows.place, "the platform has no memory bank")
    # Offsets, then processors: nothing here depends on them, but they are checked.
    for count, words in ((numbers[3] if len(numbers) > 3 else 0, 2), (numbers[1], 3)):
        for row in rows.take(count, words):
            rows.numbers(row, row.words[:words])
