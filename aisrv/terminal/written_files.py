"""Files that commands write: whole or not at all, and each is named when it is written."""

from collections.abc import Mapping
from pathlib import Path

import click

from aisrv.values.whole_file import write_whole


def write_files(files: Mapping[Path, str | bytes]) -> None:
    """Write files, text as UTF-8, and say so in a line on standard error. Raises click.ClickException."""
    for path, content in files.items():
        try:
            write_whole(path, [content.encode() if isinstance(content, str) else content])
        except OSError as error:
            raise click.ClickException(f"{path} cannot be written: {error.strerror}") from None
    *others, last = map(str, files)
    click.echo(f"wrote {' and '.join(filter(None, (', '.join(others), last)))}", err=True)
