"""Files to write: what cannot be written is refused with the option's name, before anything runs."""

from pathlib import Path

import click
from click.testing import CliRunner

from aisrv.terminal.file_types import NEW_FILE


@click.command()
@click.option("--svg", type=NEW_FILE)
def draw(svg: Path) -> None:
    click.echo(f"{type(svg).__mro__[-3].__name__} {svg}")


def refused(path: Path) -> str:
    result = CliRunner().invoke(draw, ["--svg", str(path)])
    assert result.exit_code == 2
    return result.stderr.rpartition("Error: ")[2]


def test_a_file_in_a_directory_that_is_there_can_be_written(tmp_path: Path) -> None:
    assert CliRunner().invoke(draw, ["--svg", str(tmp_path / "a.svg")]).exit_code == 0
    (tmp_path / "a.svg").touch()
    assert CliRunner().invoke(draw, ["--svg", str(tmp_path / "a.svg")]).exit_code == 0


def test_a_file_in_no_directory_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "none" / "a.svg"
    assert refused(path) == (
        f"Invalid value for '--svg': cannot write {str(path)!r}: "
        f"the directory {str(path.parent)!r} does not exist\n"
    )


def test_a_file_below_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "a.svg"
    assert refused(path).endswith(f"the directory {str(path.parent)!r} is not a directory\n")


def test_a_directory_is_refused(tmp_path: Path) -> None:
    assert refused(tmp_path) == f"Invalid value for '--svg': File {str(tmp_path)!r} is a directory.\n"
