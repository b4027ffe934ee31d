"""Files as values of command-line options and arguments, and those that a command writes."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import click

from aisrv.values.regular_file import check_regular
from aisrv.values.whole_file import write_whole


class RegularFile(click.Path):
    """A path of a regular file that exists and is not too large to be read."""

    def convert(
        self,
        value: str | os.PathLike[str],
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> Any:  # noqa: ANN401 - as in click
        path = super().convert(value, param, ctx)
        try:
            check_regular(os.fsdecode(path))
        except OSError as error:
            self.fail(f"File {os.fsdecode(path)!r}: {error.strerror}.", param, ctx)
        return path


class _NewFile(click.Path):
    """A file to write; an impossible one is refused before anything runs."""

    def __init__(self) -> None:
        super().__init__(dir_okay=False, writable=True, path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ANN401
        path = Path(os.fsdecode(super().convert(value, param, ctx)))
        folder = path.parent
        if not folder.is_dir():
            what = "is not a directory" if folder.exists() else "does not exist"
            self.fail(f"cannot write {str(path)!r}: the directory {str(folder)!r} {what}", param, ctx)
        if not path.exists() and not os.access(folder, os.W_OK | os.X_OK):
            self.fail(f"cannot write {str(path)!r}: no permission in {str(folder)!r}", param, ctx)
        return path


FILE: Final = RegularFile(exists=True, dir_okay=False, path_type=Path)
"""An existing file."""
NEW_FILE: Final = _NewFile()
"""A file to write, which may exist."""
FOLDER: Final = click.Path(file_okay=False, path_type=Path)
"""A folder to write into, which may exist."""


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Write files, text as UTF-8, and say so in a line on standard error. Raises click.ClickException."""
    for path, content in files.items():
        try:
            write_whole(path, [content.encode() if isinstance(content, str) else content])
        except OSError as error:
            raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
    *others, last = map(str, files)
    click.echo(f"wrote {' and '.join(filter(None, (', '.join(others), last)))}", err=True)
