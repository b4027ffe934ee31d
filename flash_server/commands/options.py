"""Options of several subcommands: the form of the output, types of values, and the reading of images."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from aisrv.terminal.option_group import option, option_group
from flash_server.image import Part
from flash_server.image.headers import MAX_ENGINES
from flash_server.image.image_file import EngineFiles, Image
from flash_server.image.nibbles import OLDER_ORDERS, ORDERS

DIFFERENT: Final = 1
"""Exit code if images differ; the same as for an error."""


@dataclass(frozen=True, slots=True)
class FlashSettings:
    """The options of the command itself."""

    as_json: bool = option(
        "--json", default=False, is_flag=True, help="Answer in JSON; also after the subcommand."
    )

    def answer(self, data: object, show: Callable[[], object]) -> None:
        """Print `data` as JSON if that was asked for; otherwise call `show`."""
        if self.as_json:
            click.echo(json.dumps(data, indent=2))
        else:
            show()


pass_settings = click.make_pass_decorator(FlashSettings)


class NibblesType(click.Choice[str]):
    """The order in which an image is stored, by name."""

    def __init__(self) -> None:
        super().__init__(list(ORDERS))

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(OLDER_ORDERS.get(str(value), str(value)), param, ctx)


NIBBLES: Final = NibblesType()

_LABELS: Final = "|".join(part.label for part in Part)


class EngineFilesType(click.ParamType[EngineFiles]):
    """The files of one engine: model=FILE,parameters=FILE,operators=FILE,xip=FILE."""

    name = "files"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> EngineFiles:
        """Read the text of an option; a file's name may hold commas that no part's name follows."""
        if isinstance(value, EngineFiles):
            return value
        files: dict[str, Path] = {}
        for item in re.split(f",(?=(?:{_LABELS})=)", str(value)) if value else []:
            label, separator, name = item.partition("=")
            if not separator or label not in _LABELS.split("|"):
                self.fail(f"{item!r}: write PART=FILE, with one of {_LABELS.replace('|', ', ')}", param, ctx)
            if label in files:
                self.fail(f"{label} is given twice", param, ctx)
            if not name:
                self.fail(f"{label}= has no file", param, ctx)
            files[label] = Path(name)
        return EngineFiles(**files)


engine_option = click.option(
    "--engine",
    "engines",
    multiple=True,
    type=EngineFilesType(),
    metavar="PART=FILE,...",
    help="The files of one engine, in order: model=FILE,parameters=FILE,operators=FILE,xip=FILE. Any part "
    'may be missing; "" stands for an engine without parts. Repeatable.',
)


@dataclass(frozen=True, slots=True)
class ReadingOptions:
    """The properties that an image does not state for certain; None detects them."""

    engine_count: int | None = option(
        "--engines",
        type=click.IntRange(1, MAX_ENGINES),
        metavar="N",
        help="How many engines the image has. [default: as many headers as fit before the first part]",
    )
    nibbles: str | None = option("--nibbles", type=NIBBLES, help="How bytes are stored. [default: detected]")

    @property
    def swapped(self) -> bool | None:
        """Return whether nibbles are swapped."""
        return ORDERS[self.nibbles] if self.nibbles else None

    def open(self, path: Path) -> Image:
        return Image.open(path, self.engine_count, self.swapped)


reading_options = option_group("reading", ReadingOptions)
