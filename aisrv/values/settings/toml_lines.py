"""The structure of a TOML text, which `tomllib` leaves out: the line of each key, and its depth.

Follows TOML 1.0.0, sections "String", "Keys", "Table", "Array of Tables" and "Inline Table".
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final

from aisrv.values.settings.errors import KeyPath

DEEPEST: Final = 32
"""Brackets within each other, and parts of a dotted key; settings have about four."""

_TOKEN: Final = re.compile(
    r"""
    (?P<space> [ \t\r]+ | \#[^\n]* )
  | (?P<newline> \n )
  | (?P<string> \"\"\" (?: \\. | [^\\] )*? (?: \"{3,5} | \\? \Z ) | ''' .*? (?: '{3,5} | \Z )
              | \" (?: \\. | [^\"\\\n] )* \"? | ' [^'\n]* '? )
  | (?P<mark> [\[\]{}=,.] )
  | (?P<bare> [^\s\[\]{}=,."'\#]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_END: Final = ("end", "", 0)

_Token = tuple[str, str, int]


def depth_of(text: str) -> int:
    """Return the depth of any text: of brackets, or of the parts of a dotted key. Takes linear time."""
    deepest = brackets = parts = 0
    for kind, piece, _line in _tokens(text):
        if piece in ("[", "{"):
            brackets += 1
        elif piece in ("]", "}"):
            brackets -= 1
        if piece == ".":
            parts += 1
        elif kind not in ("bare", "string"):
            parts = 0
        deepest = max(deepest, brackets, parts)
    return deepest


def lines_of(text: str) -> Mapping[KeyPath, int]:
    """Return the line, from 1, of everything in a TOML text that `tomllib` has accepted, by its path."""
    return _Lines(text).lines


def nearest_line(lines: Mapping[KeyPath, int], path: KeyPath) -> int:
    """Return the line of a path or, if it is not in the text, of its nearest parent; 1 for the text."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


class _Lines:
    """Walks over the text once, statement by statement."""

    def __init__(self, text: str) -> None:
        self.lines: dict[KeyPath, int] = {}
        self._elements: dict[KeyPath, int] = {}  # of arrays of tables, so far
        self._tokens = _tokens(text)
        self._next: _Token = next(self._tokens)
        self._statements()

    def _statements(self) -> None:
        table: KeyPath = ()
        while self._skip_newlines()[0] != "end":
            line = self._next[2]
            if self._next[1] == "[":
                table = self._header()
                self._note(table, line)
            else:
                self._key_and_value(table)

    def _header(self) -> KeyPath:
        self._take()
        is_array = self._next[1] == "["
        if is_array:
            self._take()
        keys = self._key()
        self._take()  # the bracket, or the first of two
        if is_array:
            self._take()
        path: KeyPath = ()
        for place, key in enumerate(keys, 1):
            path += (key,)
            if is_array and place == len(keys):
                self._elements[path] = self._elements.get(path, 0) + 1
            if path in self._elements:
                path += (self._elements[path] - 1,)
        return path

    def _key_and_value(self, table: KeyPath) -> None:
        line = self._next[2]
        path = table + self._key()
        self._note(path, line)
        self._take()  # the equals sign
        self._value(path)

    def _key(self) -> KeyPath:
        keys = [_key_text(*self._take()[:2])]
        while self._next[1] == ".":
            self._take()
            keys.append(_key_text(*self._take()[:2]))
        return tuple(keys)

    def _value(self, path: KeyPath) -> None:
        if self._next[1] == "[":
            self._take()
            number = 0
            while self._skip_commas()[1] != "]":
                self._note((*path, number), self._next[2])
                self._value((*path, number))
                number += 1
            self._take()
        elif self._next[1] == "{":
            self._take()
            while self._skip_commas()[1] != "}":
                self._key_and_value(path)
            self._take()
        else:
            while self._next[0] not in ("newline", "end") and self._next[1] not in ("]", "}", ","):
                self._take()

    def _note(self, path: KeyPath, line: int) -> None:
        for end in range(1, len(path) + 1):
            self.lines.setdefault(path[:end], line)

    def _take(self) -> _Token:
        taken, self._next = self._next, next(self._tokens, _END)
        return taken

    def _skip_newlines(self) -> _Token:
        while self._next[0] == "newline":
            self._take()
        return self._next

    def _skip_commas(self) -> _Token:
        while self._next[0] == "newline" or self._next[1] == ",":
            self._take()
        return self._next


def _tokens(text: str) -> Iterator[_Token]:
    line = 1
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or "end"
        if kind != "space":
            yield kind, match.group(), line
        line += match.group().count("\n")
    yield _END


def _key_text(kind: str, text: str) -> str:
    if kind != "string":
        return text
    key: str = tomllib.loads(f"key = {text}")["key"]
    return key
