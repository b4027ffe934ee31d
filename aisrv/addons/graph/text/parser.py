"""Graph texts: lines become sections of statements, checked against the table of tags."""

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from aisrv.addons.graph.errors import Messages, Place, nearest, shown
from aisrv.addons.graph.text.grammar import (
    ALIASES,
    DATA_BLOCKS,
    EVERY_TAG,
    FIRST_GRAMMAR_ARC,
    OPENERS,
    REPEATED,
    TAGS,
    WITHOUT_EFFECT,
    Kind,
    Section,
    Tag,
)
from aisrv.addons.graph.text.sections import (
    DataBlock,
    GraphText,
    Label,
    Statement,
    Subgraph,
    TextSection,
    Value,
)
from aisrv.addons.graph.text.source import (
    DataReader,
    Line,
    hexadecimal,
    integer,
    is_data_line,
    number,
    read_data,
    read_lines,
    split_lines,
)

MOST_LINES: Final = 400_000
"""Lines of a text with all that it includes."""
DEEPEST_INCLUDE: Final = 16


def parse_file(path: Path, messages: Messages, read_parameters: DataReader = read_data) -> GraphText:
    """Parse the text of a file; errors go to `messages`. `read_parameters` reads data lines of scripts."""
    return _Parser(messages, read_parameters).parse(path, read_lines(path, Place(str(path), 1), messages))


def parse_text(
    text: str, path: Path, messages: Messages, read_parameters: DataReader = read_data
) -> GraphText:
    """Parse a text as if it stood in the file `path`."""
    return _Parser(messages, read_parameters).parse(path, split_lines(text, str(path)))


class _Parser:
    """The state of a parse: the open section and block, and the files that are being included."""

    def __init__(self, messages: Messages, read_parameters: DataReader) -> None:
        self.messages = messages
        self.read_parameters = read_parameters
        self.paths: dict[int, str] = {}
        self.lines_read = 0

    def parse(self, path: Path, lines: list[Line]) -> GraphText:
        opening = Statement("graph", (), Place(str(path), 1))
        self.text = GraphText(TextSection(Section.GRAPH, opening))
        self.section = self.text.graph
        self.block: DataBlock | None = None
        self.is_ended = False
        self.folder = path.parent
        stream = self._with_includes(lines, (path,))
        for line in stream:
            if self.is_ended:
                break
            if line.words[0] == "subgraph":
                self._subgraph(line, stream)
            else:
                self._line(line)
        return self.text

    def _with_includes(self, lines: list[Line], files: tuple[Path, ...]) -> Iterator[Line]:
        for line in lines:
            self.lines_read += 1
            if self.lines_read > MOST_LINES:
                self.messages.error(
                    line.place, f"the text has more than {MOST_LINES} lines with its includes"
                )
                self.messages.check()
            if line.words[0] != "include":
                yield line
                continue
            path = self._file(line.place, line.words[1:])
            if path is None:
                continue
            if path.resolve() in {each.resolve() for each in files}:
                self.messages.error(line.place, f"{path} includes itself")
            elif len(files) >= DEEPEST_INCLUDE:
                self.messages.error(line.place, f"includes go deeper than {DEEPEST_INCLUDE} files")
            else:
                yield from self._with_includes(read_lines(path, line.place, self.messages), (*files, path))

    def _file(self, place: Place, words: tuple[str, ...]) -> Path | None:
        """Return the file that the number of a path and a name give."""
        index = integer(words[0]) if len(words) > 1 else None
        if index is None:
            self.messages.error(place, "a file is given as the number of its path and its name")
            return None
        if index not in self.paths and index != 0:
            self.messages.error(place, f"no set_file_path {index} comes before")
            return None
        return self.folder / self.paths.get(index, ".") / words[1]

    def _line(self, line: Line) -> None:
        word = ALIASES.get(line.words[0], line.words[0])
        if word == "end":
            self._end()
        elif word in OPENERS:
            self._open(word, line)
        elif word in WITHOUT_EFFECT:
            self.messages.warn(line.place, f"{word} has no effect")
        elif self.block is not None and word not in TAGS:
            self._item(self.block, line)
        elif word in TAGS:
            self._tag(word, line)
        elif is_data_line(line):
            self.messages.error(line.place, "data outside of a block of parameters or code")
        else:
            self.messages.error(line.place, f"unknown tag {shown(word)}{nearest(word, EVERY_TAG)}")

    def _end(self) -> None:
        if self.block is not None:
            self.block = None
        elif self.section.kind in (Section.NODE, Section.SCRIPT):
            self.section = self.text.graph
        else:
            self.is_ended = True

    def _open(self, tag: str, line: Line) -> None:
        self.block = None
        fields = OPENERS[tag]
        if tag in ("arc_input", "arc_output") and len(line.words) > 2 and integer(line.words[2]) is None:
            fields = FIRST_GRAMMAR_ARC
        statement = self._statement(tag, fields, line)
        if statement is None:
            # What follows belongs to a section of that kind all the same: no error for each of its tags.
            self.section = TextSection(_KINDS[tag], Statement(tag, (), line.place))
            return
        self.section = TextSection(_KINDS[tag], statement)
        numbered = {
            "format_index": self.text.formats,
            "stream_io": self.text.ios,
            "script": self.text.scripts,
        }
        if tag in numbered:
            index = int(statement.values[0])
            if index in numbered[tag]:
                there = numbered[tag][index].place
                self.messages.error(line.place, f"{tag} {index} exists already, at {there}")
            numbered[tag][index] = self.section
        if tag not in ("format_index", "stream_io"):
            self.text.order.append(self.section)

    def _tag(self, tag: str, line: Line) -> None:
        spec = TAGS[tag]
        if Section.GRAPH in spec.sections:
            self.block = None
            if self.section.kind in (Section.NODE, Section.SCRIPT):
                self.section = self.text.graph
            section = self.text.graph
        elif self.section.kind in spec.sections:
            section = self.section
        else:
            self.messages.error(line.place, f"{tag} is outside of {' and '.join(spec.sections)}")
            return
        statement = self._statement(tag, spec, line)
        if statement is None:
            return
        if tag in section.statements and tag not in REPEATED:
            there = section.statements[tag][0].place
            self.messages.warn(line.place, f"{tag} exists already, at {there}: the last one counts")
        section.statements.setdefault(tag, []).append(statement)
        if tag == "set_file_path":
            self.paths[int(statement.values[0])] = str(statement.values[1])
        if tag in DATA_BLOCKS:
            self.block = section.blocks[tag] = DataBlock(statement)
        elif self.block is not None:
            self.block = None

    def _statement(self, tag: str, spec: Tag, line: Line) -> Statement | None:
        words = line.words[1 : len(spec.fields) + 1]
        if line.words[0] == "node_malloc_E":
            words = (*map(_whole_bytes, words[:1]), "0")
        values: list[Value] = []
        for index, (kind, word) in enumerate(zip(spec.fields, words, strict=False)):
            value = _READERS[kind](word)
            if value is None:
                if index >= spec.needed:
                    break  # a comment
                self.messages.error(line.place, f"field {index + 1} of {tag} is {kind}, not {shown(word)}")
                return None
            values.append(value)
        if len(values) < spec.needed:
            self.messages.error(line.place, f"{tag} has {spec.needed} fields: {len(values)} are given")
            return None
        return Statement(tag, tuple(values), line.place)

    def _item(self, block: DataBlock, line: Line) -> None:
        tag = block.opening.tag
        if line.words[0] == "label":
            if len(line.words) < 2:
                self.messages.error(line.place, "a label has a name")
            else:
                block.items.append(Label(line.place, line.words[1]))
            return
        if tag == "script_code":
            block.items.append(line)
            return
        read = self.read_parameters if tag == "script_parameters" else read_data
        data = read(line, self.messages)
        if data is None:
            word = line.words[0]
            self.messages.error(
                line.place,
                f"{shown(word)} is neither data such as `2 u8; 1 2` nor a tag{nearest(word, EVERY_TAG)}",
            )
        else:
            block.items.append(data)

    def _subgraph(self, line: Line, stream: Iterator[Line]) -> None:
        self.block, self.section = None, self.text.graph
        if len(line.words) > 1:
            name = line.words[1]
        else:
            name_line = next(stream, None)
            name = name_line.words[0] if name_line else ""
        lines = [each for each in (next(stream, None) for _ in range(3)) if each is not None]
        if len(lines) < 3:
            self.messages.error(
                line.place, "a subgraph has four lines: name, path and file, IOs, memory banks"
            )
            return
        path = self._file(lines[0].place, lines[0].words)
        ios, banks = (_indexes(each, self.messages) for each in lines[1:])
        if path is not None and ios is not None and banks is not None:
            self.text.order.append(Subgraph(name, line.place, path, ios, banks))


def _indexes(line: Line, messages: Messages) -> tuple[int, ...] | None:
    data = read_data(line, messages)
    if data is None or data.type not in ("i16", "u16", "s16"):
        messages.error(line.place, "a subgraph's IOs and memory banks are given as `n i16: …`")
        return None
    return tuple(
        int.from_bytes(data.value[at : at + 2], "little", signed=True) for at in range(0, len(data.value), 2)
    )


def _whole_bytes(word: str) -> str:
    """Return a number of bytes of the first grammar, which may have a fraction, rounded up."""
    value = number(word)
    return word if value is None else str(math.ceil(value))


_KINDS: Final = {
    "format_index": Section.FORMAT,
    "stream_io": Section.IO,
    "node": Section.NODE,
    "script": Section.SCRIPT,
    "arc": Section.ARC,
    "arc_input": Section.ARC,
    "arc_output": Section.ARC,
}
_READERS: Final[dict[Kind, Callable[[str], Value | None]]] = {
    Kind.INT: integer,
    Kind.NUMBER: number,
    Kind.HEX: hexadecimal,
    Kind.WORD: str,
}
