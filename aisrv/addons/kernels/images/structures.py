"""The C kernels by number, and their parameters: structures of words, as `c/network.h` declares them."""

import re
import struct
from importlib.resources import files
from typing import Final, NamedTuple, Self

from aisrv.model.relocatable.errors import BuildError

_HEADER: Final = (files(__package__) / "c" / "network.h").read_text()
_KERNEL: Final = re.compile(r"^    KERNEL_(\w+),$", re.MULTILINE)
_STRUCTURE: Final = re.compile(r"^struct (\w+) \{\n((?:    u?int32_t [\w, ]+;\n)+)\};", re.MULTILINE)
_FIELDS: Final = re.compile(r"(u?)int32_t ([\w, ]+);")

KERNELS: Final = tuple(name.lower() for name in _KERNEL.findall(_HEADER))
"""C functions by number."""

STRUCTURES: Final = {
    name: {
        field: "I" if sign else "i" for sign, fields in _FIELDS.findall(body) for field in fields.split(", ")
    }
    for name, body in _STRUCTURE.findall(_HEADER)
}
"""The fields of each structure of 32-bit words, with their formats in `struct`."""


class Parameters(NamedTuple):
    """The parameters of a kernel: a structure of the header, and the value of each of its fields in order."""

    structure: str
    values: tuple[int, ...]

    @classmethod
    def of(cls, structure: str, **values: int) -> Self:
        """Fill a structure. TypeError where `values` are not its fields, one for each."""
        fields = STRUCTURES[structure]
        if fields.keys() != values.keys():
            raise TypeError(f"struct {structure}: {', '.join(sorted(fields.keys() ^ values.keys()))} differ")
        return cls(structure, tuple(values[field] for field in fields))

    def __bytes__(self) -> bytes:
        try:
            return struct.pack("<" + "".join(STRUCTURES[self.structure].values()), *self.values)
        except struct.error as error:
            raise BuildError(f"struct {self.structure}: a value does not fit its field: {error}") from error

    def by_field(self) -> dict[str, int]:
        """Return the values by the names of their fields, in the order of the structure."""
        return dict(zip(STRUCTURES[self.structure], self.values, strict=True))
