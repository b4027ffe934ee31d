"""Lines of scripts as the public compiler of December 2024 assembles them, oddities included."""

import struct
from typing import Final

from aisrv.addons.graph.script.instructions import (
    FLOATS,
    LONG_PUBLIC,
    NO_REGISTER,
    NO_VALUE,
    REGISTERS,
    SPECIAL,
    TYPE_NAMES,
    Special,
    Type,
    is_short,
    short,
)
from aisrv.addons.graph.script.line import AssemblyError, LineAssembler, type_of
from aisrv.addons.graph.script.table import Form, Plain, Reg, TypeName
from aisrv.addons.graph.script.values import signed
from aisrv.addons.graph.text.source import number

_TYPES: Final = {
    **{f"ptr{name}": kind for name, kind in TYPE_NAMES.items() if kind not in (Type.TIME32, Type.PTR28)},
    **{name: kind for name, kind in TYPE_NAMES.items() if kind != Type.PTR28},
    "ptr": Type.PTR28,
}
"""Types by their names; any other is int32."""


class PublicLine(LineAssembler):
    """Assembles one line; each method is a difference."""

    def low_bits(self, form: Form) -> int:
        """`swap` has no K12."""
        return 0 if (form.op, form.opar) == (SPECIAL, Special.SWAP) else form.low

    @staticmethod
    def type_name(kind: Type) -> str:
        """PTR28 is `#ptr`."""
        return "#ptr" if kind == Type.PTR28 else LineAssembler.type_name(kind)

    def read_register(self, element: Reg) -> None:
        """`banz` takes a second register."""
        if not element.is_public:
            super().read_register(element)
        elif self.peek() in REGISTERS:
            self.fields[element.field] = self.register()

    def padded(self, given: list[int], count: int) -> list[int]:
        """Of four registers the last is lost, and SRC4 is 0 if five are not given."""
        return given if len(given) == count else [*super().padded(given[:2], count - 1), 0]

    def read_type(self, element: TypeName) -> None:
        """A type with `ptr` before its name is that type; one without `#` or the word `type` is int32."""
        word = self.take()
        bare = word.removeprefix("#")
        kind = Type.INT32
        if word[:1] == "#" and not element.bare and bare in _TYPES:
            kind = _TYPES[bare]
        elif bare.removeprefix("ptr") not in TYPE_NAMES:
            type_of(word)
        self.low |= short(kind)

    def read_bits(self, _: Plain) -> None:
        """All that the fields hold, in any order."""
        lsb, msb = self.bits(63)
        self.low |= msb << 6 | lsb

    def read_count(self, element: Plain) -> None:
        """Behind a register, any value."""
        if self.fields["dst"] == NO_REGISTER:
            super().read_count(element)
        else:
            self.low |= self.operand()

    def offset_behind(self) -> int:
        """`[ r ] k` has an offset that does not move the register."""
        return NO_VALUE if self.peek() in ("=", "") else self.offset()

    def offset(self) -> int:
        """Any value."""
        return self.operand()

    def literal(self, word: str, kind: Type) -> float | None:  # noqa: ARG002 - of whatever type
        """Any number, its fraction cut off for a whole type."""
        return number(word)

    def constant(self, word: str, value: float, kind: Type) -> int:  # noqa: ARG002 - the number is shown
        """Short where the number is, whatever its type; else its 32 bits, those of a float32 for fp16."""
        if kind in FLOATS:
            try:
                self.second = [struct.unpack("<I", struct.pack("<f", value))[0]]
            except OverflowError:
                raise AssemblyError(f"{value:g} does not fit float") from None
            return LONG_PUBLIC + kind
        whole = signed(int(value))
        if is_short(whole):
            return short(whole)
        self.second = [whole & 0xFFFFFFFF]
        return LONG_PUBLIC + kind
