"""Assembler of one line of a script: the operands of the table of instructions, read from text."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from aisrv.addons.graph.errors import Place, nearest, shown
from aisrv.addons.graph.script.instructions import (
    ALU,
    FLOATS,
    LABEL_VALUE,
    LONG,
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
from aisrv.addons.graph.script.table import (
    CONDITIONS,
    FORMS,
    Element,
    Form,
    LabelOf,
    Plain,
    Pointer,
    Reg,
    TypeName,
    kind_of,
)
from aisrv.addons.graph.text.source import Line, integer, number

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
    """Assembles one line; `at` is the index of its word, and `references` get unresolved words."""

    def __init__(self, line: Line, at: int, references: list[Reference]) -> None:
        self.place = line.place
        self.tokens = tokens_of(line.text)
        self.next = 0
        self.at = at
        self.references = references
        self.fields = {"dst": 0, "src1": 0, "src3": 0, "src4": 0, "src2": 0}
        self.opar = 0
        self.low = 0
        self.second: list[int] = []

    def assemble(self) -> list[int]:
        """Return the words of the line. Raises AssemblyError."""
        condition = 0
        if self.peek() in CONDITIONS:
            condition = CONDITIONS[self.take()]
        form = form_of(self.tokens[self.next :])
        self.opar = form.opar or 0
        self.low = self.low_bits(form)
        self.fields["src1"] = form.src1
        for element in form.text:
            if isinstance(element, str):
                self._expect(element)
            else:
                _READERS[kind_of(element)](self, element)
        fields = self.fields
        low = self.low | fields["src3"] << 10 | fields["src4"] << 6 | fields["src2"]
        word = Instruction(condition, form.op, self.opar, fields["dst"], fields["src1"], low).word()
        return [word, *self.second]

    def low_bits(self, form: Form) -> int:
        """Return bits 13:0 of an instruction besides its operands."""
        return form.low

    @staticmethod
    def type_name(kind: Type) -> str:
        return f"#{kind.name.lower()}"

    # The operands of the table.

    def read_register(self, element: Reg) -> None:
        """Read a register, or 12 for an absent optional one."""
        if not element.is_public:
            absent = element.optional and self.peek() not in REGISTERS
            self.fields[element.field] = NO_REGISTER if absent else self.register()

    def read_list(self, _: Plain) -> None:
        self.fields["dst"] = self.register()
        places = ("src1", "src2", "src3", "src4")
        given: list[int] = []
        while self.peek() in REGISTERS and len(given) < len(places):
            given.append(self.register())
        self.fields.update(zip(places, self.padded(given, len(places)), strict=True))

    def padded(self, given: list[int], count: int) -> list[int]:
        """Return registers of a list, with 12 in the places of those that are absent."""
        return given + [NO_REGISTER] * (count - len(given))

    def read_value(self, _: Plain) -> None:
        word = self.peek()
        if word in ALU:
            self.take()
            self.opar, self.fields["src1"] = ALU[word], self.register()
            if word == "norm" and self.peek() not in REGISTERS:
                raise AssemblyError("norm has a register and a register for the count")
        elif word and word not in REGISTERS and word[0] != "#" and number(word) is None:
            raise AssemblyError(f"unknown operation {shown(word)}{nearest(word, ALU)}")
        self.low |= self.operand()

    def read_operand(self, _: Plain) -> None:
        self.low |= self.operand()

    def read_type(self, _: TypeName) -> None:
        """Read DTYPE by its name, behind `#`."""
        self.low |= short(type_of(self.take()))

    def read_label(self, element: LabelOf) -> None:
        """Read the name of a label or a node, which the next word is for."""
        name = self.take().removeprefix("#")
        self.references.append(Reference(element.block, name, self.place, self.at + 1))
        self.low |= LABEL_VALUE
        self.second = [0]

    def read_target(self, _: Plain) -> None:
        """Read the name of a label of the code."""
        self.references.append(Reference("label", self.take(), self.place, self.at))

    def read_pointer(self, element: Pointer) -> None:
        """Read a register in brackets, with an offset inside or behind."""
        self._expect("[")
        self.fields[element.field] = self.register()
        if self.peek() == "]":
            self.take()
            self.low |= self.offset_behind()
        elif self.peek() == "]+":
            self.take()
            self.low |= UPDATE | self.offset()
        else:
            self.low |= PRE | self.offset()
            closing = self.take()
            if closing not in ("]", "]+"):
                raise AssemblyError(f"expected ] or ]+, not {shown(closing)}")
            self.low |= UPDATE if closing == "]+" else 0

    def read_bits(self, _: Plain) -> None:
        lsb, msb = self.bits(31)
        if lsb > msb:
            raise AssemblyError(f"the lower bit, {lsb}, is above the upper one, {msb}")
        self.low |= msb << 6 | lsb

    def read_service(self, _: Plain) -> None:
        self.low |= self._number("a service", 63)

    def read_count(self, _: Plain) -> None:
        self.low |= short(self._number("a count", MOST_DELETED))

    # Values.

    def bits(self, most: int) -> tuple[int, int]:
        """Return the lower and the upper bit of a range, each up to `most`."""
        self._expect("|")
        lsb, msb = self._number("a bit", most), self._number("a bit", most)
        self._expect("|")
        return lsb, msb

    def offset_behind(self) -> int:
        """Return K12 of `[ r ]`."""
        return NO_VALUE

    def offset(self) -> int:
        """Return K12 of the offset of a pointer."""
        word = self.take()
        value = integer(word)
        if value is None or not is_short(value):
            raise AssemblyError(f"an offset is -2016 to 2047, not {shown(word)}")
        return short(value)

    def operand(self) -> int:
        """Return K12 of a register, a short constant, or a long one, which goes to the next word."""
        word = self.take()
        if word in REGISTERS:
            return REGISTERS[word]
        kind = Type.INT32
        if word[0] == "#":
            kind, word = type_of(word), self.take()
        value = self.literal(word, kind)
        if value is None:
            raise AssemblyError(
                f"{shown(word)} is neither a register nor a literal of type {kind.name.lower()}"
            )
        return self.constant(word, value, kind)

    def literal(self, word: str, kind: Type) -> float | None:
        """Return the number in a word, None if it is none of its type."""
        return number(word) if kind in FLOATS else integer(word)

    def constant(self, word: str, value: float, kind: Type) -> int:
        """Return K12 of a constant, and put a long one in the next word."""
        if kind == Type.INT32 and is_short(int(value)):
            return short(int(value))
        try:
            self.second = [value_bits(value, kind)]
        except OverflowError:
            raise AssemblyError(f"{shown(word)} does not fit {kind.name.lower()}") from None
        return LONG + kind

    # Tokens.

    def peek(self) -> str:
        return self.tokens[self.next] if self.next < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise AssemblyError("the instruction ends too early")
        self.next += 1
        return token

    def _expect(self, wanted: str) -> None:
        token = self.take()
        if token != wanted:
            raise AssemblyError(f"expected {wanted}, not {shown(token)}")

    def register(self) -> int:
        word = self.take()
        if word not in REGISTERS:
            raise AssemblyError(f"{shown(word)} is not a register{nearest(word, REGISTERS)}")
        return REGISTERS[word]

    def _number(self, what: str, most: int) -> int:
        word = self.take()
        value = integer(word)
        if value is None or not 0 <= value <= most:
            raise AssemblyError(f"{what} is 0 to {most}, not {shown(word)}")
        return value


def tokens_of(text: str) -> list[str]:
    """Return the words and signs of a line, without its comment."""
    return _TOKEN.findall(text.partition(";")[0])


def form_of(tokens: list[str]) -> Form:
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
    """Check whether tokens may be this text, up to its first operand of unknown length."""
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
            return token == _BEGINS.get(kind_of(element), token)
    return True


def type_of(word: str) -> Type:
    """Return the type with a name, `#` before it or not. Raises AssemblyError."""
    name = word.removeprefix("#")
    if name not in TYPE_NAMES:
        raise AssemblyError(f"unknown type {shown(word)}{nearest(name, TYPE_NAMES)}")
    return TYPE_NAMES[name]


_BEGINS: Final[dict[type[Element] | Plain, str]] = {Pointer: "[", Plain.BITS: "|"}
_READERS: Final[dict[type[Element] | Plain, Callable[[LineAssembler, Any], None]]] = {
    Reg: lambda line, element: line.read_register(element),
    Plain.REGISTERS: lambda line, element: line.read_list(element),
    Plain.VALUE: lambda line, element: line.read_value(element),
    Plain.OPERAND: lambda line, element: line.read_operand(element),
    TypeName: lambda line, element: line.read_type(element),
    LabelOf: lambda line, element: line.read_label(element),
    Plain.TARGET: lambda line, element: line.read_target(element),
    Pointer: lambda line, element: line.read_pointer(element),
    Plain.BITS: lambda line, element: line.read_bits(element),
    Plain.SERVICE: lambda line, element: line.read_service(element),
    Plain.COUNT: lambda line, element: line.read_count(element),
}
