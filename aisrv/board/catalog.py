"""Boards by name: those that come with the package, and files. Each is read when it is first asked for.

The parsers of TOML and XML, and msgspec, are imported when a file is read.
"""

from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Final

from aisrv.board import Board, BoardError

_DIRECTORY: Final = Path(__file__).parent / "boards"

_DEFAULT: Final = {"single": "one engine, with USB and SPI"}
"""Board of a start without options, with its description: its file is empty, and is not read."""


class ShippedBoards(Mapping[str, Board]):
    """The boards of the package's `boards` directory, by the names of their files."""

    def __getitem__(self, name: str) -> Board:
        if name not in _names():
            raise KeyError(name)
        return _read(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_names())

    def __len__(self) -> int:
        return len(_names())


@cache
def _names() -> tuple[str, ...]:
    return tuple(sorted(path.stem for path in _DIRECTORY.glob("*.toml")))


@cache
def _read(name: str) -> Board:
    if name in _DEFAULT:
        return Board(description=_DEFAULT[name])
    from aisrv.board.toml_file import read_board

    return read_board(_DIRECTORY / f"{name}.toml")


BOARDS: Final[Mapping[str, Board]] = ShippedBoards()


def find_board(name: str) -> Board:
    """Return a shipped board, or read the file where the name ends in .toml or .xn. Raises BoardError."""
    suffix = Path(name).suffix.lower()
    if suffix == ".toml":
        from aisrv.board.toml_file import read_board

        return read_board(Path(name))
    if suffix == ".xn":
        from aisrv.board.xn_file import read_xn

        return read_xn(Path(name))
    if name not in BOARDS:
        raise BoardError(f"{name!r} is not one of {', '.join(map(repr, BOARDS))}, nor FILE.toml or FILE.xn")
    return BOARDS[name]
