"""The packing file: TOML that says what an image is made of.

    generation = "fast"      # design, 1.2 or fast
    nibbles = "swapped"      # or normal
    size = "4M"              # of the data partition: a number of bytes, or a text with a unit
    align = 16
    fill = true
    missing = "placed"       # or zero

    [[engine]]
    model = "person.tflite"
    parameters = "person.params"

Everything but the engines may be left out. Paths are relative to the TOML file.
"""

from pathlib import Path
from typing import Literal

from aisrv.values.settings.errors import SettingsError
from aisrv.values.settings.size import Size
from aisrv.values.settings.tables import Table, convert
from aisrv.values.settings.toml_file import read_toml
from flash_server.files import InputError
from flash_server.image import Generation
from flash_server.image.image_file import EngineFiles
from flash_server.image.nibbles import OLDER_ORDERS, ORDERS
from flash_server.image.pack_options import MISSING, PackConfig


class _Engine(Table, frozen=True):
    model: Path | None = None
    """A `.tflite` file."""
    parameters: Path | None = None
    """Parameters of a model that was converted without them, or the weights of an image without them."""
    operators: Path | None = None
    """Code of operators, an image of relocatable code, or the weights of one in `xip`."""
    xip: Path | None = None
    """Data and code that are used in place (XIP), such as an image of relocatable code."""


class PackTables(Table, frozen=True, rename={"alignment": "align"}):
    """The tables of a packing file."""

    generation: Generation | None = None
    """Generation of the data partition."""
    nibbles: Literal["swapped", "normal", "straight"] | None = None
    """Storage of bytes; straight is an older name of normal. Default: swapped for fast, else normal."""
    size: Size | None = None
    """Size of the data partition; a larger image is refused."""
    alignment: Size | None = None
    """Parts begin at multiples of this."""
    fill: bool | None = None
    """Whether the image is padded with FF up to `size`."""
    missing: Literal["placed", "zero"] | None = None
    """Offset of a missing part: one with nothing behind it, or 0. Default: placed for fast, else zero."""
    engine: tuple[_Engine, ...] = ()
    """Files of each engine, in order; any of them may be missing."""


def read_config(path: Path) -> PackConfig:
    """Read a packing file. Raises InputError, which names the file, the line and the key."""
    try:
        tables = convert(read_toml(path), PackTables)
    except SettingsError as error:
        raise InputError(str(error)) from None
    fields = tables.given()
    engines = tuple(EngineFiles(**engine.given()) for engine in fields.pop("engine"))
    if tables.nibbles is not None:
        order = fields.pop("nibbles")
        fields["swapped"] = ORDERS[OLDER_ORDERS.get(order, order)]
    if tables.missing is not None:
        fields["placed"] = MISSING[fields.pop("missing")]
    return PackConfig(engines, fields)
