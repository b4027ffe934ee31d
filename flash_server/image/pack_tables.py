"""The tables of a packing file, as typed classes."""

from pathlib import Path
from typing import Literal

from aisrv.settings.size import Size
from aisrv.settings.tables import Table, convert
from aisrv.settings.toml_file import read_toml
from flash_server.image import Generation
from flash_server.image.image_file import EngineFiles
from flash_server.image.nibbles import OLDER_ORDERS, ORDERS
from flash_server.image.pack_config import MISSING, PackConfig


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


def read_tables(path: Path) -> PackConfig:
    """Read a packing file. Raises SettingsError."""
    tables = convert(read_toml(path), _File)
    fields = tables.given()
    engines = tuple(EngineFiles(**engine.given()) for engine in fields.pop("engine"))
    if tables.nibbles is not None:
        order = fields.pop("nibbles")
        fields["swapped"] = ORDERS[OLDER_ORDERS.get(order, order)]
    if tables.missing is not None:
        fields["placed"] = MISSING[fields.pop("missing")]
    return PackConfig(engines, fields)
