"""Where in a TOML text each table, key and array element begins: what `tomllib` leaves out.

The text is one that `tomllib` has accepted, so that only its structure is looked at here (TOML 1.0.0,
sections "Keys", "Table", "Array of Tables", "Inline Table").
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from typing import Final

Path = tuple[str | int, ...]
"""Keys and, for elements of arrays, numbers, from the top: `("engines", 1, "arena")`."""

_TOKEN: Final = re.compile(
    r"""
    (?P<space> [ \t\r]+ | \#[^\n]* )
  | (?P<newline> \n )
  | (?P<string> \"\"\" (?: \\. | [^\\] )*? \"{3,5} | ''' .*? '{3,5}
              | \" (?: \\. | [^\"\\\n] )* \" | ' [^'\n]* ' )
  | (?P<mark> [\[\]{}=,.] )
  | (?P<bare> [^\s\[\]{}=,."'\#]+ )
    """,
    re.VERBOSE | re.DOTALL,
)
_END: Final = ("end", "", 0)

_Token = tuple[str, str, int]


def lines_of(text: str) -> Mapping[Path, int]:
    """Give the line, from 1, of everything in a TOML text by its path."""
    return _Lines(text).lines


def nearest_line(lines: Mapping[Path, int], path: Path) -> int:
    """Return the line of a path or, where it is not in the text, of what it would be in; 1 for the text."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path, 1)


class _Lines:
    """Walks over the text once, statement by statement."""

    def __init__(self, text: str) -> None:
        self.lines: dict[Path, int] = {}
        self._elements: dict[Path, int] = {}  # of arrays of tables, so far
        self._tokens = _tokens(text)
        self._next: _Token = next(self._tokens)
        self._statements()

    def _statements(self) -> None:
        table: Path = ()
        while self._skip_newlines()[0] != "end":
            line = self._next[2]
            if self._next[1] == "[":
                table = self._header()
                self._note(table, line)
            else:
                self._key_and_value(table)

    def _header(self) -> Path:
        self._take()
        is_array = self._next[1] == "["
        if is_array:
            self._take()
        keys = self._key()
        self._take()  # the bracket, or the first of two
        if is_array:
            self._take()
        path: Path = ()
        for place, key in enumerate(keys, 1):
            path += (key,)
            if is_array and place == len(keys):
                self._elements[path] = self._elements.get(path, 0) + 1
            if path in self._elements:
                path += (self._elements[path] - 1,)
        return path

    def _key_and_value(self, table: Path) -> None:
        line = self._next[2]
        path = table + self._key()
        self._note(path, line)
        self._take()  # the equals sign
        self._value(path)

    def _key(self) -> Path:
        keys = [_key_text(*self._take()[:2])]
        while self._next[1] == ".":
            self._take()
            keys.append(_key_text(*self._take()[:2]))
        return tuple(keys)

    def _value(self, path: Path) -> None:
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

    def _note(self, path: Path, line: int) -> None:
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
