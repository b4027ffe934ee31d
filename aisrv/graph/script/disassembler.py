"""The disassembler: words of a script become lines that assemble to the same words."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.graph.errors import TextError
from aisrv.graph.messages import Messages
from aisrv.graph.script.assembler import assemble
from aisrv.graph.script.instructions import (
    ALU,
    FLOATS,
    JUMPS,
    LABEL_SETTERS,
    MOVE,
    NO_REGISTER,
    PRE,
    REGISTER_NAMES,
    SPECIAL,
    TESTS,
    UPDATE,
    Condition,
    Instruction,
    Special,
    Type,
    code_length,
)
from aisrv.graph.script.values import number_of
from aisrv.graph.text import parse_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

_CONDITIONS: Final = {Condition.ALWAYS: "", Condition.IF_YES: "if_yes ", Condition.IF_NO: "if_no "}
_TEST_NAMES: Final = {code: f"test_{name}" for name, code in TESTS.items()}
_ALU_NAMES: Final = {code: name for name, code in ALU.items()}
_SETTERS: Final = {
    Special.SET_PARAM: "param",
    Special.SET_HEAP: "heap",
    Special.SET_GRAPH: "graph",
    Special.SET_BASE: "base",
    Special.SET_SIZE: "size",
}


class _NoTextError(Exception):
    """A word that no line gives."""


@dataclass(slots=True)
class ScriptText:
    """The lines of a script; each line of code with the index of its word."""

    code: list[tuple[int, str]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    heap: list[str] = field(default_factory=list)

    def lines(self, tag: int = 0) -> list[str]:
        """All lines, as they stand between `script` and `end`."""
        lines = ["script_code", *(line for _, line in self.code)]
        if self.parameters:
            lines += [f"script_parameters {tag}", *self.parameters]
        if self.heap:
            lines += ["script_heap", *self.heap]
        return lines


def disassemble(
    words: Sequence[int], *, heap_bytes: int = 0, nodes: Mapping[int, str] | None = None, compat: bool = False
) -> ScriptText:
    """Turn code, with the parameters behind it, into lines; `nodes` names nodes by the index of their word.

    A word that no instruction gives becomes a data line. `compat` is that of the assembler for the lines.
    """
    length = code_length(list(words))
    data = b"".join(word.to_bytes(4, "little") for word in words[length:])
    walk = _Walk(words[:length], len(data), heap_bytes, nodes or {})
    text = ScriptText()
    for at, line in walk.lines():
        text.code.append((at, line))
    if not _is_same(walk.words, text, compat):
        text.code = _raw_where_needed(walk, compat)
    labels = {at for at in walk.targets if 0 <= at <= length}
    text.code = _with_labels(text.code, labels, length)
    text.parameters = _data_lines(data, walk.parameter_labels, "P")
    text.heap = _data_lines(bytes(heap_bytes), walk.heap_labels, "H")
    return text


def _with_labels(code: list[tuple[int, str]], labels: set[int], length: int) -> list[tuple[int, str]]:
    lines = []
    for at, line in code:
        if at in labels:
            lines.append((at, f"label L{at}"))
        lines.append((at, line))
    if length in labels:
        lines.append((length, f"label L{length}"))
    return lines


def _data_lines(data: bytes, labels: set[int], letter: str) -> list[str]:
    """Bytes as data lines, cut where labels are."""
    lines = []
    cuts = sorted({0, len(data), *labels})
    for start, end in zip(cuts, [*cuts[1:], cuts[-1]], strict=True):
        if start in labels:
            lines.append(f"label {letter}{start}")
        for at in range(start, end, 16):
            part = data[at : min(at + 16, end)]
            lines.append(f"{len(part)} u8; {' '.join(map(str, part))}")
    return lines


def _is_same(words: Sequence[int], text: ScriptText, compat: bool) -> bool:
    """Whether lines assemble to words, references to labels and nodes apart."""
    got = _assembled([line for _, line in text.code], compat)
    return got is not None and got == _masked(words)


def _raw_where_needed(walk: _Walk, compat: bool) -> list[tuple[int, str]]:
    """The lines, with data lines in the place of those that assemble to other words."""
    lines = []
    for at, line in walk.lines():
        size = Instruction.from_word(walk.words[at]).words
        words = walk.words[at : at + size]
        if line[0].isdigit() or _assembled([line], compat) == _masked(words):
            lines.append((at, line))
        else:
            lines += [(at + index, _raw(word)) for index, word in enumerate(words)]
    return lines


def _assembled(lines: list[str], compat: bool) -> list[int] | None:
    """The words of lines, their references zero; None where they are not instructions."""
    messages = Messages()
    parsed = parse_text("\n".join(["script 0", "script_code", *lines]), Path("code"), messages, compat=compat)
    references = [line.split() for line in lines]
    defined = {word for words in references for word in words[1:] if word[:1] in "LPH" and word[1:].isdigit()}
    blocks = parsed.scripts[0].blocks
    for tag, letter in (("script_code", "L"), ("script_parameters", "P"), ("script_heap", "H")):
        labels = "\n".join(f"label {word}" for word in sorted(defined) if word[0] == letter)
        extra = parse_text(f"script 0\n{tag}\n{labels}", Path("code"), Messages()).scripts[0].blocks[tag]
        if tag in blocks:
            blocks[tag].items += extra.items
        else:
            blocks[tag] = extra
    try:
        code = assemble(blocks, parsed.scripts[0].place, messages, compat=compat)
        messages.check()
    except TextError:
        return None
    return _masked(code.words)


def _masked(words: Sequence[int]) -> list[int]:
    """Words without the distances of jumps and the offsets of labels."""
    masked = list(words)
    at = 0
    while at < len(words):
        instruction = Instruction.from_word(words[at])
        if instruction.op == SPECIAL and instruction.opar in JUMPS:
            masked[at] &= ~0xFFF
        if instruction.op == SPECIAL and instruction.opar in LABEL_SETTERS and instruction.is_long:
            masked[at + 1 : at + 2] = [0] * len(masked[at + 1 : at + 2])
        at += instruction.words
    return masked


def _raw(word: int) -> str:
    return f"1 h32; {word:08X}"


class _Walk:
    """The words of code, and the labels that its lines ask for."""

    def __init__(
        self, words: Sequence[int], parameter_bytes: int, heap_bytes: int, nodes: Mapping[int, str]
    ) -> None:
        self.words = words
        self.sizes = {Special.SET_PARAM: parameter_bytes, Special.SET_HEAP: heap_bytes}
        self.nodes = nodes
        self.starts: set[int] = set()
        at = 0
        while at < len(words):
            self.starts.add(at)
            at += Instruction.from_word(words[at]).words
        self.starts.add(len(words))
        self.targets: set[int] = set()
        self.parameter_labels: set[int] = set()
        self.heap_labels: set[int] = set()

    def lines(self) -> list[tuple[int, str]]:
        """Each line with the index of its word."""
        lines = []
        at = 0
        while at < len(self.words):
            instruction = Instruction.from_word(self.words[at])
            end = at + instruction.words
            try:
                if end > len(self.words) or instruction.condition == 3:
                    raise _NoTextError
                lines.append(
                    (at, _CONDITIONS[Condition(instruction.condition)] + self._line(at, instruction))
                )
            except _NoTextError:
                lines += [(index, _raw(self.words[index])) for index in range(at, min(end, len(self.words)))]
            at = end
        return lines

    def _line(self, at: int, instruction: Instruction) -> str:
        if instruction.op in _TEST_NAMES:
            return f"{_TEST_NAMES[instruction.op]} {_name(instruction.dst)} {self._value(at, instruction)}"
        if instruction.op == MOVE:
            return self._assignment(at, instruction)
        handler = _LINES.get(instruction.opar)
        if handler is None:
            raise _NoTextError
        return handler(self, at, instruction)

    def _assignment(self, at: int, instruction: Instruction) -> str:
        value = self._value(at, instruction)
        if instruction.opar == 0:
            return f"{_name(instruction.dst)} = {value}"
        if instruction.opar not in _ALU_NAMES:
            raise _NoTextError
        operation = _ALU_NAMES[instruction.opar]
        return f"{_name(instruction.dst)} = {operation} {_name(instruction.src1)} {value}"

    def _value(self, at: int, instruction: Instruction) -> str:
        constant = instruction.constant
        if constant is not None:
            return str(constant)
        if not instruction.is_long:
            return _name(instruction.src2)
        kind = _type(instruction.src2)
        bits = self.words[at + 1]
        if kind in FLOATS:
            value = number_of(bits, kind)
            if kind == Type.FLOAT and struct.pack("<f", value) != struct.pack("<I", bits):
                raise _NoTextError
            return f"#{kind.name.lower()} {value!r}"
        return f"#{kind.name.lower()} {number_of(bits, kind)}"

    def _setter(self, at: int, instruction: Instruction) -> str:
        names = {Special.SET_TYPE: "type", Special.SET_TYPEPTR: "typeptr"}
        register = _name(instruction.dst)
        if instruction.opar in names:
            kind = _type(_constant(instruction))
            return f"set {register} {names[Special(instruction.opar)]} #{kind.name.lower()}"
        if instruction.opar in (Special.SET_BASE, Special.SET_SIZE):
            return f"set {register} {_SETTERS[Special(instruction.opar)]} {self._value(at, instruction)}"
        if not instruction.is_long:
            raise _NoTextError
        offset = self.words[at + 1]
        if instruction.opar == Special.SET_GRAPH:
            if offset not in self.nodes:
                raise _NoTextError
            return f"set {register} graph {self.nodes[offset]}"
        if offset > self.sizes[Special(instruction.opar)]:
            raise _NoTextError
        if instruction.opar == Special.SET_PARAM:
            self.parameter_labels.add(offset)
            return f"set {register} param P{offset}"
        self.heap_labels.add(offset)
        return f"set {register} heap H{offset}"

    def _store(self, _: int, instruction: Instruction) -> str:
        return f"{_pointer(instruction.dst, instruction)} = {_name(instruction.src1)}"

    def _load(self, _: int, instruction: Instruction) -> str:
        return f"{_name(instruction.dst)} = {_pointer(instruction.src1, instruction)}"

    def _insert(self, _: int, instruction: Instruction) -> str:
        return f"{_name(instruction.dst)} {_bits(instruction)} = {_name(instruction.src1)}"

    def _extract(self, _: int, instruction: Instruction) -> str:
        return f"{_name(instruction.dst)} = {_name(instruction.src1)} {_bits(instruction)}"

    def _swap(self, _: int, instruction: Instruction) -> str:
        return f"swap {_name(instruction.dst)} {_name(instruction.src1)}"

    def _delete(self, _: int, instruction: Instruction) -> str:
        return f"delete {_given([instruction.dst])}{_constant(instruction)}"

    def _branch(self, at: int, instruction: Instruction) -> str:
        target = at + _constant(instruction)
        if target not in self.starts:
            raise _NoTextError
        self.targets.add(target)
        operation = Special(instruction.opar).name.lower()
        operands = _given([instruction.dst, instruction.src1])
        return f"{operation} L{target} {operands}".rstrip()

    def _callsys(self, _: int, instruction: Instruction) -> str:
        places = [instruction.dst, instruction.src1, instruction.src3, instruction.src4]
        return f"callsys {instruction.low & 63} {_given(places)}".rstrip()

    def _list(self, _: int, instruction: Instruction) -> str:
        places = [
            instruction.dst, instruction.src1, instruction.src2, instruction.src3, instruction.src4,
        ]  # fmt: skip
        return f"{Special(instruction.opar).name.lower()} {_given(places)}".rstrip()

    def _return(self, _at: int, _instruction: Instruction) -> str:
        return "return"


def _name(index: int) -> str:
    if index not in REGISTER_NAMES:
        raise _NoTextError
    return REGISTER_NAMES[index]


def _type(code: int) -> Type:
    if code not in set(Type):
        raise _NoTextError
    return Type(code)


def _constant(instruction: Instruction) -> int:
    if instruction.constant is None:
        raise _NoTextError
    return instruction.constant


def _given(places: list[int]) -> str:
    """The registers up to the first absent one, each followed by a space."""
    names = [REGISTER_NAMES.get(index, "") if index != NO_REGISTER else "" for index in places]
    given = names[: names.index("")] if "" in names else names
    return "".join(f"{name} " for name in given)


def _pointer(register: int, instruction: Instruction) -> str:
    name = _name(register)
    if instruction.low & PRE:
        return f"[ {name} {_constant(instruction)} ]{'+' if instruction.low & UPDATE else ''}"
    if instruction.low & UPDATE:
        return f"[ {name} ]+ {_constant(instruction)}"
    return f"[ {name} ]"


def _bits(instruction: Instruction) -> str:
    return f"| {instruction.low & 63} {instruction.low >> 6 & 63} |"


_LINES: Final[dict[int, Callable[[_Walk, int, Instruction], str]]] = {
    **dict.fromkeys(
        (Special.SET_TYPE, Special.SET_TYPEPTR, Special.SET_BASE, Special.SET_SIZE, *LABEL_SETTERS),
        _Walk._setter,
    ),
    Special.STORE: _Walk._store,
    Special.LOAD: _Walk._load,
    Special.INSERT_BITS: _Walk._insert,
    Special.EXTRACT_BITS: _Walk._extract,
    Special.SWAP: _Walk._swap,
    Special.DELETE: _Walk._delete,
    **dict.fromkeys(JUMPS, _Walk._branch),
    Special.CALLSYS: _Walk._callsys,
    Special.SAVE: _Walk._list,
    Special.RESTORE: _Walk._list,
    Special.RETURN: _Walk._return,
}
