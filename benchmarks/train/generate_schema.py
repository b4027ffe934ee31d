"""Write `aisrv/model/schema.py`: the reader's part of TensorFlow Lite's schema, as `tflite` has it.

    python -m benchmarks.train.generate_schema

The package takes 0.1 s to import, with numpy; a device that only reads a model need not wait for it. No slot,
type, default or name is typed in by hand: each accessor of the package is called once with a table that
notes where it looks.
"""

# ruff: noqa: ANN401, ARG002, N802 - the packages have no types; methods in place of theirs have their form

import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import tflite
from flatbuffers import table as flatbuffer_table

from aisrv.model import options
from aisrv.values.whole_file import write_whole

TABLES: Final = (
    "Model",
    "OperatorCode",
    "Buffer",
    "SubGraph",
    "Tensor",
    "QuantizationParameters",
    "SparsityParameters",
    "Operator",
    "Metadata",
    *sorted(set(options.TABLES.values())),
)

_NO_FIELDS: Final = ("AsNumpy", "Length", "IsNone", "BufferHasIdentifier", "Init")
_HEADER: Final = '''\
"""TensorFlow Lite's schema for the reader: written by benchmarks/train/generate_schema.py.

A field is its slot in the field list, its type and its default. Types of numbers are those of the `struct`
module, `s` is a string, `union` a table of some kind, any other name a table; `[` makes it a vector.
"""

from typing import Final

Field = tuple[int, str, int | float | None]

SCHEMA_VERSION: Final = 3
FILE_IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of every file."""
'''


class _NotingTable(flatbuffer_table.Table):  # type: ignore[misc]  # the package has no types
    """A table that has all fields, or none, and records the reads."""

    __slots__ = ("entry", "is_empty", "type")

    def __init__(self, *, is_empty: bool) -> None:
        super().__init__(b"", 0)
        self.entry, self.type, self.is_empty = 0, "", is_empty

    def Offset(self, entry: int) -> int:
        self.entry = self.entry or entry  # the first that an accessor looks at is its own
        return 0 if self.is_empty else entry

    def Get(self, flags: Any, position: int) -> int:
        self.type += flags.packer_type.format[-1]
        return int(flags.max_val) if hasattr(flags, "max_val") and flags.max_val else 0

    def Vector(self, offset: int) -> int:
        self.type += "["
        return 0

    def Indirect(self, position: int) -> int:
        return 0

    def String(self, position: int) -> bytes:
        self.type += "s"
        return b""

    def Union(self, table: Any, offset: int) -> None:
        self.type += "union"


def fields_of(table: str) -> Iterator[tuple[str, int, str, Any]]:
    """Yield name, slot, type and default of each field of a table."""
    fields = getattr(tflite, table)
    accessors = vars(fields)
    for name in accessors:
        if not name[0].isupper() or name.endswith(_NO_FIELDS) or name.startswith("GetRootAs"):
            continue
        arguments = (0,) if f"{name}Length" in accessors else ()
        reader = fields()
        reader._tab = full = _NotingTable(is_empty=False)
        found = getattr(reader, name)(*arguments)
        kind = full.type
        if kind in ("", "["):
            kind += type(found).__name__
        reader._tab = _NotingTable(is_empty=True)
        default = getattr(reader, name)(*arguments) if len(kind) == 1 and kind != "s" else None
        spoken = "".join(f"_{each.lower()}" if each.isupper() else each for each in name).lstrip("_")
        yield spoken, full.entry // 2, kind, default


def schema() -> str:
    """Return the text of `schema.py`."""
    lines = [_HEADER, "TABLES: Final[dict[str, dict[str, Field]]] = {"]
    for table in TABLES:
        lines.append(f'    "{table}": {{')
        for name, slot, kind, default in fields_of(table):
            lines.append(f'        "{name}": ({slot}, "{kind}", {default}),')
        lines.append("    },")
    lines += ["}", "", "OPTION_TABLES: Final = {"]
    for table in sorted(set(options.TABLES.values())):
        lines.append(f'    "{table}": {getattr(tflite.BuiltinOptions, table)},')
    lines += ["}", '"""The number of each table of options in the union of an operator."""', ""]
    names = tflite.BUILTIN_OPCODE2NAME
    operators = textwrap.wrap(" ".join(names[code] for code in range(len(names))), 100)
    lines += [
        'OPERATORS: Final = """',
        *operators,
        '""".split()  # noqa: SIM905 - one line for each would be 200',
        '"""Builtin operators by their codes."""',
    ]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    write_whole(Path(options.__file__).with_name("schema.py"), [schema().encode()])
