"""The assembler: lines of a script become words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aisrv.graph.messages import Messages, nearest, shown
from aisrv.graph.script.instructions import (
    ALU,
    JUMP_BITS,
    LABEL_VALUE,
    LONG,
    LONG_COMPAT,
    MOVE,
    NO_REGISTER,
    NO_VALUE,
    PRE,
    REGISTERS,
    SPECIAL,
    TESTS,
    TYPE_NAMES,
    UPDATE,
    Condition,
    Special,
    Type,
    code_length,
    is_short,
    short,
    value_bits,
)
from aisrv.graph.source import Data, Line, integer, is_data_line, number, read_data
from aisrv.graph.text import DataBlock, Label

if TYPE_CHECKING:
    from collections.abc import Callable

    from aisrv.graph.errors import Place

_TOKEN: Final = re.compile(r"\]\+|[\[\]|=]|[^\s\[\]|=,]+")
_CONDITIONS: Final = {"if_yes": Condition.IF_YES, "if_no": Condition.IF_NO, "if_not": Condition.IF_NO}
_TESTS: Final = {**{f"test_{name}": code for name, code in TESTS.items()}, "test_eq": 0}
OPAQUE: Final = 1
"""Format of a script of 16-bit codes, which no machine runs."""


class AssemblyError(Exception):
    """A line that is not an instruction."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A word that is known later: the offset of a label, the distance to one, or the position of a node."""

    kind: str
    name: str
    place: Place
    at: int


@dataclass(slots=True)
class Code:
    """Assembled code with its parameters; `nodes` are the words that the positions of nodes go to."""

    words: list[int] = field(default_factory=list)
    parameters: bytes = b""
    heap_bytes: int = 0
    format: int = 0
    nodes: list[Reference] = field(default_factory=list)

    def all_words(self) -> list[int]:
        """Code, then parameters, padded to words with zeros."""
        padded = self.parameters + bytes(-len(self.parameters) % 4)
        return self.words + [int.from_bytes(padded[at : at + 4], "little") for at in range(0, len(padded), 4)]


def assemble(blocks: dict[str, DataBlock], place: Place, messages: Messages, *, compat: bool = False) -> Code:
    """Assemble `script_code` with its `script_parameters` and `script_heap`."""
    code = Code()
    parameters, heap = blocks.get("script_parameters"), blocks.get("script_heap")
    offsets: dict[str, dict[str, int]] = {"param": {}, "heap": {}, "label": {}}
    if parameters is not None:
        offsets["param"], code.parameters = _layout(parameters, messages)
    if heap is not None:
        offsets["heap"], values = _layout(heap, messages)
        code.heap_bytes = len(values)
        if any(values):
            messages.warn(heap.opening.place, "the words hold no values of the heap: it starts as zeros")
    block = blocks.get("script_code")
    if block is None:
        messages.error(place, "the script has no script_code")
        return code
    data = [_data(item, messages) for item in block.items]
    if any(each is not None and each.type[1:] != "32" for each in data):
        return _opaque(code, block, data, messages)
    references = _assemble_lines(code, block, data, offsets["label"], messages, compat)
    _resolve(code, references, offsets, messages)
    length = code_length(code.all_words())
    if length > len(code.words):
        messages.warn(block.opening.place, "the code runs on behind its end: it has no return there")
    elif length < len(code.words) and code.parameters:
        messages.warn(
            block.opening.place,
            f"the last {len(code.words) - length} words of the code are never reached:"
            " a run takes them for the start of the parameters",
        )
    return code


def _data(item: Data | Label | Line, messages: Messages) -> Data | None:
    return read_data(item, messages) if isinstance(item, Line) and is_data_line(item) else None


def _layout(block: DataBlock, messages: Messages) -> tuple[dict[str, int], bytes]:
    """Offsets of the labels in a block of data, and its bytes."""
    offsets: dict[str, int] = {}
    parts: list[bytes] = []
    at = 0
    for item in block.items:
        if isinstance(item, Label):
            if item.name in offsets:
                messages.error(item.place, f"label {shown(item.name)} exists already")
            offsets[item.name] = at
        elif isinstance(item, Data):
            parts.append(item.value)
            at += len(item.value)
    return offsets, b"".join(parts)


def _opaque(code: Code, block: DataBlock, data: list[Data | None], messages: Messages) -> Code:
    code.format = OPAQUE
    value = b""
    for item, each in zip(block.items, data, strict=True):
        if each is None:
            messages.error(item.place, "a script has either 16-bit codes or instructions, not both")
        else:
            value += each.value
    value += bytes(-len(value) % 4)
    code.words = [int.from_bytes(value[at : at + 4], "little") for at in range(0, len(value), 4)]
    return code


def _assemble_lines(
    code: Code,
    block: DataBlock,
    data: list[Data | None],
    labels: dict[str, int],
    messages: Messages,
    compat: bool,
) -> list[Reference]:
    references: list[Reference] = []
    for item, raw in zip(block.items, data, strict=True):
        if isinstance(item, Label):
            if item.name in labels:
                messages.error(item.place, f"label {shown(item.name)} exists already")
            labels[item.name] = len(code.words)
        elif raw is not None:
            code.words += [
                int.from_bytes(raw.value[at : at + 4], "little") for at in range(0, len(raw.value), 4)
            ]
        elif isinstance(item, Line):
            line = _Line(item, len(code.words), compat, references)
            try:
                code.words += line.assemble()
            except AssemblyError as error:
                messages.error(item.place, str(error))
                code.words.append(0)
    return references


def _resolve(
    code: Code, references: list[Reference], offsets: dict[str, dict[str, int]], messages: Messages
) -> None:
    for reference in references:
        if reference.kind == "graph":
            code.nodes.append(reference)
            continue
        known = offsets[reference.kind]
        offset = known.get(reference.name)
        if offset is None:
            where = {"label": "code", "param": "parameters", "heap": "heap"}[reference.kind]
            messages.error(
                reference.place,
                f"no label {shown(reference.name)} in the {where}{nearest(reference.name, known)}",
            )
        elif reference.kind != "label":
            code.words[reference.at] = offset
        elif not is_short(offset - reference.at):
            messages.error(reference.place, f"label {shown(reference.name)} is too far away to jump to")
        else:
            code.words[reference.at] |= short(offset - reference.at)


class _Line:
    """Assembles one line."""

    def __init__(self, line: Line, at: int, compat: bool, references: list[Reference]) -> None:
        self.place = line.place
        self.tokens = _TOKEN.findall(line.text.partition(";")[0])
        self.next = 0
        self.at = at
        self.compat = compat
        self.references = references
        self.condition = 0

    def assemble(self) -> list[int]:
        if self._peek() in _CONDITIONS:
            self.condition = _CONDITIONS[self._take()]
        first = self._take()
        if first in _TESTS:
            return self._with_value(_TESTS[first], 0, self._register(), 0)
        handler = _STATEMENTS.get(first)
        if handler is not None:
            return handler(self)
        if first == "[":
            return self._store()
        if first not in REGISTERS:
            names = (*_TESTS, *_STATEMENTS, *REGISTERS, *_CONDITIONS)
            raise AssemblyError(f"unknown instruction {shown(first)}{nearest(first, names)}")
        if self._peek() == "|":
            lsb, msb = self._bits()
            self._expect("=")
            return self._word(Special.INSERT_BITS, REGISTERS[first], self._register(), msb << 6 | lsb)
        self._expect("=")
        return self._assign(REGISTERS[first])

    def _assign(self, dst: int) -> list[int]:
        word = self._peek()
        if word == "[":
            pointer, low = self._pointer()
            return self._word(Special.LOAD, dst, pointer, low)
        if word in ALU:
            self._take()
            src1 = self._register()
            if word == "norm" and self._peek() not in REGISTERS:
                raise AssemblyError("norm has a register and a register for the count")
            return self._with_value(MOVE, ALU[word], dst, src1)
        if word in REGISTERS and self.tokens[self.next + 1 : self.next + 2] == ["|"]:
            src1 = self._register()
            lsb, msb = self._bits()
            return self._word(Special.EXTRACT_BITS, dst, src1, msb << 6 | lsb)
        if word and word not in REGISTERS and word[0] != "#" and number(word) is None:
            raise AssemblyError(f"unknown operation {shown(word)}{nearest(word, ALU)}")
        return self._with_value(MOVE, 0, dst, 0)

    def _store(self) -> list[int]:
        self.next -= 1
        pointer, low = self._pointer()
        self._expect("=")
        return self._word(Special.STORE, pointer, self._register(), low)

    def _pointer(self) -> tuple[int, int]:
        """`[ r ]`, `[ r ]+ k`, `[ r k ]` or `[ r k ]+`: the register, and bits 13:0."""
        self._expect("[")
        pointer = self._register()
        if self._peek() == "]":
            self._take()
            return pointer, NO_VALUE
        if self._peek() == "]+":
            self._take()
            return pointer, UPDATE | self._short("an offset")
        low = PRE | self._short("an offset")
        closing = self._take()
        if closing not in ("]", "]+"):
            raise AssemblyError(f"expected ] or ]+, not {shown(closing)}")
        return pointer, low | (UPDATE if closing == "]+" else 0)

    def _bits(self) -> tuple[int, int]:
        self._expect("|")
        lsb, msb = self._constant("a bit", 31), self._constant("a bit", 31)
        self._expect("|")
        if lsb > msb:
            raise AssemblyError(f"the lower bit, {lsb}, is above the upper one, {msb}")
        return lsb, msb

    def set_(self) -> list[int]:
        register = self._register()
        word = self._take()
        if word.startswith("#") and word[1:] in ("param", "heap", "graph"):
            word = word[1:]
        if word.startswith("#"):
            return self._word(Special.SET_TYPE, register, 0, short(_type(word)))
        if word in ("type", "typeptr"):
            operation = Special.SET_TYPE if word == "type" else Special.SET_TYPEPTR
            name = self._take()
            kind = Type.INT32 if self.compat and name[:1] != "#" else _type(name)
            return self._word(operation, register, 0, short(kind))
        if word in ("base", "size"):
            operation = Special.SET_BASE if word == "base" else Special.SET_SIZE
            return self._with_value(SPECIAL, operation, register, 0)
        if word in ("param", "heap", "graph"):
            operation = Special[f"SET_{word.upper()}"]
            name = self._take().removeprefix("#")
            self.references.append(Reference(word, name, self.place, self.at + 1))
            return [*self._word(operation, register, 0, LABEL_VALUE), 0]
        raise AssemblyError(f"unknown setting {shown(word)}{nearest(word, _SETTINGS)}")

    def swap(self) -> list[int]:
        return self._word(Special.SWAP, self._register(), self._register(), NO_VALUE)

    def delete(self) -> list[int]:
        register = self._optional_register()
        return self._word(Special.DELETE, register, 0, short(self._constant("a count", SHORT_DELETE)))

    def jump(self) -> list[int]:
        return self._branch(Special.JUMP)

    def call(self) -> list[int]:
        return self._branch(Special.CALL)

    def _branch(self, operation: Special) -> list[int]:
        self._label()
        return self._word(operation, self._optional_register(), self._optional_register(), JUMP_BITS)

    def banz(self) -> list[int]:
        self._label()
        return self._word(Special.BANZ, self._register(), NO_REGISTER, JUMP_BITS)

    def _label(self) -> None:
        self.references.append(Reference("label", self._take(), self.place, self.at))

    def callsys(self) -> list[int]:
        service = self._constant("a service", 63)
        dst, src1, src3, src4 = (self._optional_register() for _ in range(4))
        return self._word(Special.CALLSYS, dst, src1, src3 << 10 | src4 << 6 | service)

    def save(self) -> list[int]:
        return self._list(Special.SAVE)

    def restore(self) -> list[int]:
        return self._list(Special.RESTORE)

    def _list(self, operation: Special) -> list[int]:
        absent = 0 if self.compat else NO_REGISTER
        first = self._register()
        src1, src2, src3, src4 = (self._optional_register(absent) for _ in range(4))
        return self._word(operation, first, src1, src3 << 10 | src4 << 6 | src2)

    def return_(self) -> list[int]:
        return self._word(Special.RETURN, 0, 0, NO_VALUE)

    def _word(self, operation: Special, dst: int, src1: int, low: int) -> list[int]:
        return [self._head(SPECIAL, operation, dst, src1) | low]

    def _head(self, op: int, opar: int, dst: int, src1: int) -> int:
        return self.condition << 30 | op << 27 | opar << 22 | dst << 18 | src1 << 14

    def _with_value(self, op: int, opar: int, dst: int, src1: int) -> list[int]:
        """An instruction whose K12 is a register, a short constant, or the type of the next word."""
        head = self._head(op, opar, dst, src1)
        word = self._take()
        if word in REGISTERS:
            return [head | REGISTERS[word]]
        kind = Type.INT32
        if word[0] == "#":
            kind, word = _type(word), self._take()
        value = number(word) if kind in (Type.FLOAT, Type.FP16) else integer(word)
        if value is None:
            raise AssemblyError(
                f"{shown(word)} is neither a register nor a literal of type {kind.name.lower()}"
            )
        if kind == Type.INT32 and is_short(int(value)):
            return [head | short(int(value))]
        try:
            bits = value_bits(value, kind)
        except OverflowError:
            raise AssemblyError(f"{shown(word)} does not fit {kind.name.lower()}") from None
        return [head | (LONG_COMPAT if self.compat else LONG) + kind, bits]

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

    def _register(self) -> int:
        word = self._take()
        if word not in REGISTERS:
            raise AssemblyError(f"{shown(word)} is not a register{nearest(word, REGISTERS)}")
        return REGISTERS[word]

    def _optional_register(self, absent: int = NO_REGISTER) -> int:
        return self._register() if self._peek() in REGISTERS else absent

    def _constant(self, what: str, most: int) -> int:
        word = self._take()
        value = integer(word)
        if value is None or not 0 <= value <= most:
            raise AssemblyError(f"{what} is 0 to {most}, not {shown(word)}")
        return value

    def _short(self, what: str) -> int:
        word = self._take()
        value = integer(word)
        if value is None or not is_short(value):
            raise AssemblyError(f"{what} is -2016 to 2047, not {shown(word)}")
        return short(value)


SHORT_DELETE: Final = 127
"""Most places that `delete` takes off the stack."""
_SETTINGS: Final = ("type", "typeptr", "base", "size", "param", "heap", "graph")


def _type(word: str) -> Type:
    name = word.removeprefix("#")
    if name not in TYPE_NAMES:
        raise AssemblyError(f"unknown type {shown(word)}{nearest(name, TYPE_NAMES)}")
    return TYPE_NAMES[name]


_STATEMENTS: Final[dict[str, Callable[[_Line], list[int]]]] = {
    "set": _Line.set_,
    "swap": _Line.swap,
    "delete": _Line.delete,
    "jump": _Line.jump,
    "banz": _Line.banz,
    "call": _Line.call,
    "callsys": _Line.callsys,
    "save": _Line.save,
    "restore": _Line.restore,
    "return": _Line.return_,
}
