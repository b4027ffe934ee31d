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

from aisrv.settings.errors import SettingsError
from aisrv.settings.size import Size
from aisrv.settings.tables import Table, convert
from aisrv.settings.toml_file import read_toml
from flash_server.files import InputError
from flash_server.image import Generation
from flash_server.image.image_file import EngineFiles
from flash_server.image.nibbles import OLDER_ORDERS, ORDERS
from flash_server.image.pack_options import MISSING, PackConfig


class _Engine(Table, frozen=True):
    model: Path | None = None
    parameters: Path | None = None
    operators: Path | None = None
    xip: Path | None = None


class _File(Table, frozen=True, rename={"alignment": "align"}):
    generation: Generation | None = None
    nibbles: Literal["swapped", "normal", "straight"] | None = None
    size: Size | None = None
    alignment: Size | None = None
    fill: bool | None = None
    missing: Literal["placed", "zero"] | None = None
    engine: tuple[_Engine, ...] = ()


def read_config(path: Path) -> PackConfig:
    """Read a packing file. Raises InputError, which names the file, the line and the key."""
    try:
        tables = convert(read_toml(path), _File)
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
