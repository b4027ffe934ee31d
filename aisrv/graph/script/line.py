"""One line of a script becomes its words: the operands of the table of instructions, read from text."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aisrv.graph.script.instructions import (
    ALU,
    FLOATS,
    LABEL_VALUE,
    LONG,
    LONG_COMPAT,
    NO_REGISTER,
    NO_VALUE,
    PRE,
    REGISTERS,
    TYPE_NAMES,
    UPDATE,
    Instruction,
    Type,
    is_short,
    short,
    value_bits,
)
from aisrv.graph.script.table import (
    CONDITIONS,
    FORMS,
    BitRange,
    Count,
    Element,
    Form,
    LabelOf,
    Operand,
    Pointer,
    Reg,
    RegList,
    Service,
    Target,
    TypeName,
    Value,
)
from aisrv.graph.script.values import signed
from aisrv.graph.text.messages import nearest, shown
from aisrv.graph.text.source import Line, integer, number

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisrv.graph.errors import Place

MOST_DELETED: Final = 127
"""Most places that `delete` takes off the stack."""
_TOKEN: Final = re.compile(r"\]\+|[\[\]|=]|[^\s\[\]|=,]+")


class AssemblyError(Exception):
    """A line that is not an instruction."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A word that is known later: the offset of a label, the distance to one, or the position of a node."""

    kind: str
    name: str
    place: Place
    at: int


class LineAssembler:
    """Assembles one line; `at` is the index of its word, and `references` get what is known later."""

    def __init__(self, line: Line, at: int, compat: bool, references: list[Reference]) -> None:
        self.place = line.place
        self.tokens = tokens_of(line.text)
        self.next = 0
        self.at = at
        self.compat = compat
        self.references = references
        self.fields = {"dst": 0, "src1": 0, "src3": 0, "src4": 0, "src2": 0}
        self.opar = 0
        self.low = 0
        self.second: list[int] = []

    def assemble(self) -> list[int]:
        """The words of the line. Raises AssemblyError."""
        condition = 0
        if self._peek() in CONDITIONS:
            condition = CONDITIONS[self._take()]
        form = _form(self.tokens[self.next :])
        self.opar = form.opar or 0
        self.low = form.low_compat if self.compat and form.low_compat is not None else form.low
        self.fields["src1"] = form.src1
        for element in form.text:
            if isinstance(element, str):
                self._expect(element)
            else:
                _READERS[type(element)](self, element)
        fields = self.fields
        low = self.low | fields["src3"] << 10 | fields["src4"] << 6 | fields["src2"]
        word = Instruction(condition, form.op, self.opar, fields["dst"], fields["src1"], low).word()
        return [word, *self.second]

    # The operands of the table.

    def read_register(self, element: Reg) -> None:
        """A register, or 12 where an optional one is absent."""
        absent = element.optional and self._peek() not in REGISTERS
        if not absent and (self.compat or not element.compat):
            self.fields[element.field] = self.register()
        elif not element.compat:
            self.fields[element.field] = NO_REGISTER

    def read_list(self, _: RegList) -> None:
        """Registers of `save` and `restore`; the public compiler loses the fourth of four, and has SRC4 0."""
        self.fields["dst"] = self.register()
        places = ("src1", "src2", "src3", "src4")
        given: list[int] = []
        while self._peek() in REGISTERS and len(given) < len(places):
            given.append(self.register())
        if self.compat and len(given) < len(places):
            given = [*given[:2], *[NO_REGISTER] * (3 - len(given[:2])), 0]
        given += [NO_REGISTER] * (len(places) - len(given))
        self.fields.update(zip(places, given, strict=True))

    def read_value(self, _: Value) -> None:
        """`x` or `alu a x`."""
        word = self._peek()
        if word in ALU:
            self._take()
            self.opar, self.fields["src1"] = ALU[word], self.register()
            if word == "norm" and self._peek() not in REGISTERS:
                raise AssemblyError("norm has a register and a register for the count")
        elif word and word not in REGISTERS and word[0] != "#" and number(word) is None:
            raise AssemblyError(f"unknown operation {shown(word)}{nearest(word, ALU)}")
        self.low |= self._operand()

    def read_operand(self, _: Operand) -> None:
        """A constant or a register."""
        self.low |= self._operand()

    def read_type(self, element: TypeName) -> None:
        """DTYPE by its name, behind `#` or, for the public compiler, `#ptr`."""
        word = self._take()
        if not self.compat:
            self.low |= short(_type(word))
            return
        bare = word.removeprefix("#")
        kind = Type.INT32
        if word[:1] == "#" and not element.bare and bare in _TYPES_COMPAT:
            kind = _TYPES_COMPAT[bare]
        elif bare.removeprefix("ptr") not in TYPE_NAMES:
            _type(word)
        self.low |= short(kind)

    def read_label(self, element: LabelOf) -> None:
        """The name of a label or a node, which the next word is for."""
        name = self._take().removeprefix("#")
        self.references.append(Reference(element.block, name, self.place, self.at + 1))
        self.low |= LABEL_VALUE
        self.second = [0]

    def read_target(self, _: Target) -> None:
        """The name of a label of the code."""
        self.references.append(Reference("label", self._take(), self.place, self.at))

    def read_pointer(self, element: Pointer) -> None:
        """A register in brackets, with an offset inside or behind."""
        self._expect("[")
        self.fields[element.field] = self.register()
        if self._peek() == "]":
            self._take()
            self.low |= self._offset() if self.compat and self._peek() not in ("=", "") else NO_VALUE
        elif self._peek() == "]+":
            self._take()
            self.low |= UPDATE | self._offset()
        else:
            self.low |= PRE | self._offset()
            closing = self._take()
            if closing not in ("]", "]+"):
                raise AssemblyError(f"expected ] or ]+, not {shown(closing)}")
            self.low |= UPDATE if closing == "]+" else 0

    def read_bits(self, _: BitRange) -> None:
        """The lowest and the highest bit; the public compiler takes all that the fields hold."""
        most = 63 if self.compat else 31
        self._expect("|")
        lsb, msb = self._number("a bit", most), self._number("a bit", most)
        self._expect("|")
        if lsb > msb and not self.compat:
            raise AssemblyError(f"the lower bit, {lsb}, is above the upper one, {msb}")
        self.low |= msb << 6 | lsb

    def read_service(self, _: Service) -> None:
        """The number of a service."""
        self.low |= self._number("a service", 63)

    def read_count(self, _: Count) -> None:
        """A number of places; for the public compiler any value, behind a register."""
        is_value = self.compat and self.fields["dst"] != NO_REGISTER
        self.low |= self._operand() if is_value else short(self._number("a count", MOST_DELETED))

    # Values.

    def _offset(self) -> int:
        if self.compat:
            return self._operand()
        word = self._take()
        value = integer(word)
        if value is None or not is_short(value):
            raise AssemblyError(f"an offset is -2016 to 2047, not {shown(word)}")
        return short(value)

    def _operand(self) -> int:
        """K12 of a register, a short constant, or a long one, which goes to the next word."""
        word = self._take()
        if word in REGISTERS:
            return REGISTERS[word]
        kind = Type.INT32
        if word[0] == "#":
            kind, word = _type(word), self._take()
        value = number(word) if kind in FLOATS or self.compat else integer(word)
        if value is None:
            raise AssemblyError(
                f"{shown(word)} is neither a register nor a literal of type {kind.name.lower()}"
            )
        if self.compat:
            return self._operand_of_the_public_compiler(value, kind)
        if kind == Type.INT32 and is_short(int(value)):
            return short(int(value))
        try:
            self.second = [value_bits(value, kind)]
        except OverflowError:
            raise AssemblyError(f"{shown(word)} does not fit {kind.name.lower()}") from None
        return LONG + kind

    def _operand_of_the_public_compiler(self, value: float, kind: Type) -> int:
        """Short where the number is, whatever its type; else its 32 bits, those of a float32 for fp16."""
        if kind in FLOATS:
            try:
                self.second = [struct.unpack("<I", struct.pack("<f", value))[0]]
            except OverflowError:
                raise AssemblyError(f"{value:g} does not fit float") from None
            return LONG_COMPAT + kind
        whole = signed(int(value))
        if is_short(whole):
            return short(whole)
        self.second = [whole & 0xFFFFFFFF]
        return LONG_COMPAT + kind

    # Tokens.

    def _peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        if not token:
            raise AssemblyError("the instruction ends too early")
        self.next += 1
        return token

    def _expect(self, wanted: str) -> None:
        token = self._take()
        if token != wanted:
            raise AssemblyError(f"expected {wanted}, not {shown(token)}")

    def register(self) -> int:
        """Take a register that must be there."""
        word = self._take()
        if word not in REGISTERS:
            raise AssemblyError(f"{shown(word)} is not a register{nearest(word, REGISTERS)}")
        return REGISTERS[word]

    def _number(self, what: str, most: int) -> int:
        word = self._take()
        value = integer(word)
        if value is None or not 0 <= value <= most:
            raise AssemblyError(f"{what} is 0 to {most}, not {shown(word)}")
        return value


def tokens_of(text: str) -> list[str]:
    """The words and signs of a line, without its comment."""
    return _TOKEN.findall(text.partition(";")[0])


def form_of_line(text: str) -> Form:
    """The instruction that a line without a condition is. Raises AssemblyError."""
    return _form(tokens_of(text))


def _form(tokens: list[str]) -> Form:
    """The instruction that tokens are; where none fits, that which the first one begins."""
    if not tokens:
        raise AssemblyError("the instruction ends too early")
    likely = [form for form in FORMS if _fits(tokens, form.text[:1])]
    for form in likely:
        if _fits(tokens, form.text):
            return form
    if not likely:
        names = dict.fromkeys(str(form.text[0]) for form in FORMS if isinstance(form.text[0], str))
        words = [*names, *REGISTERS, *CONDITIONS]
        raise AssemblyError(f"unknown instruction {shown(tokens[0])}{nearest(tokens[0], words)}")
    if likely[0].text[0] == "set" and len(tokens) > 2 and tokens[1] in REGISTERS:
        settings = [str(form.text[2]) for form in likely if len(form.text) > 3]
        raise AssemblyError(f"unknown setting {shown(tokens[2])}{nearest(tokens[2], settings)}")
    return likely[-1]


def _fits(tokens: list[str], text: tuple[Element, ...]) -> bool:
    """Whether tokens may be this text, up to its first operand of unknown length."""
    for element, token in zip(text, [*tokens, *[""] * len(text)], strict=False):
        if isinstance(element, str):
            if token != element:
                return False
        elif isinstance(element, Reg) and not element.optional:
            if token not in REGISTERS:
                return False
        elif isinstance(element, TypeName) and element.bare:
            return token[:1] == "#"
        else:
            return token == _BEGINS.get(type(element), token)
    return True


def _type(word: str) -> Type:
    name = word.removeprefix("#")
    if name not in TYPE_NAMES:
        raise AssemblyError(f"unknown type {shown(word)}{nearest(name, TYPE_NAMES)}")
    return TYPE_NAMES[name]


_TYPES_COMPAT: Final = {
    **{f"ptr{name}": kind for name, kind in TYPE_NAMES.items() if kind not in (Type.TIME32, Type.PTR28)},
    **{name: kind for name, kind in TYPE_NAMES.items() if kind != Type.PTR28},
    "ptr": Type.PTR28,
}
"""Types by the names of the public compiler; any other is int32 there."""
_BEGINS: Final[dict[type, str]] = {Pointer: "[", BitRange: "|"}
_READERS: Final[dict[type, Callable[[LineAssembler, Any], None]]] = {
    Reg: LineAssembler.read_register,
    RegList: LineAssembler.read_list,
    Value: LineAssembler.read_value,
    Operand: LineAssembler.read_operand,
    TypeName: LineAssembler.read_type,
    LabelOf: LineAssembler.read_label,
    Target: LineAssembler.read_target,
    Pointer: LineAssembler.read_pointer,
    BitRange: LineAssembler.read_bits,
    Service: LineAssembler.read_service,
    Count: LineAssembler.read_count,
}
