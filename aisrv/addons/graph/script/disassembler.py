"""The disassembler: words of a script become lines that assemble to the same words."""

import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aisrv.addons.graph.errors import Messages, TextError
from aisrv.addons.graph.script.assembler import assemble
from aisrv.addons.graph.script.instructions import (
    ALU,
    FLOATS,
    NO_REGISTER,
    PRE,
    REGISTER_NAMES,
    UPDATE,
    Condition,
    Instruction,
    Type,
)
from aisrv.addons.graph.script.line import LineAssembler
from aisrv.addons.graph.script.table import (
    CONDITIONS,
    Element,
    Form,
    LabelOf,
    Plain,
    Pointer,
    Reg,
    TypeName,
    code_length,
    form_of,
    kind_of,
    length,
)
from aisrv.addons.graph.script.values import number_of
from aisrv.addons.graph.text.parser import parse_text

_CONDITIONS: Final[dict[int, str]] = {
    Condition.ALWAYS: "",
    **{code: f"{word} " for word, code in reversed(CONDITIONS.items())},
}
_ALU_NAMES: Final = {code: name for name, code in ALU.items()}


class _NoTextError(Exception):
    """A word that no line gives."""


@dataclass(slots=True)
class ScriptText:
    """The lines of a script; each line of code with the index of its word."""

    code: list[tuple[int, str]] = field(default_factory=list)
    parameters: list[str] = field(default_factory=list)
    heap: list[str] = field(default_factory=list)

    def lines(self, tag: int = 0) -> list[str]:
        """Return all lines, as they stand between `script` and `end`."""
        lines = ["script_code", *(line for _, line in self.code)]
        if self.parameters:
            lines += [f"script_parameters {tag}", *self.parameters]
        if self.heap:
            lines += ["script_heap", *self.heap]
        return lines


def disassemble(
    words: Sequence[int],
    *,
    heap_bytes: int = 0,
    nodes: Mapping[int, str] | None = None,
    line: type[LineAssembler] = LineAssembler,
) -> ScriptText:
    """Turn code, with the parameters behind it, into lines; `nodes` names nodes by the index of their word.

    A word that no instruction gives becomes a data line. `line` is what will assemble the lines.
    """
    end = code_length(words)
    data = b"".join(word.to_bytes(4, "little") for word in words[end:])
    walk = _Walk(words[:end], len(data), heap_bytes, nodes or {}, line)
    text = ScriptText()
    text.code = walk.lines()
    if not _is_same(walk.words, text, line):
        text.code = _raw_where_needed(walk, line)
    labels = {at for at in walk.targets if 0 <= at <= end}
    text.code = _with_labels(text.code, labels, end)
    text.parameters = _data_lines(data, walk.labels["param"], "P")
    text.heap = _data_lines(bytes(heap_bytes), walk.labels["heap"], "H")
    return text


def _with_labels(code: list[tuple[int, str]], labels: set[int], end: int) -> list[tuple[int, str]]:
    lines = []
    for at, line in code:
        if at in labels:
            lines.append((at, f"label L{at}"))
        lines.append((at, line))
    if end in labels:
        lines.append((end, f"label L{end}"))
    return lines


def _data_lines(data: bytes, labels: set[int], letter: str) -> list[str]:
    """Return bytes as data lines, cut at labels."""
    lines = []
    cuts = sorted({0, len(data), *labels})
    for start, end in zip(cuts, [*cuts[1:], cuts[-1]], strict=True):
        if start in labels:
            lines.append(f"label {letter}{start}")
        for at in range(start, end, 16):
            part = data[at : min(at + 16, end)]
            lines.append(f"{len(part)} u8; {' '.join(map(str, part))}")
    return lines


def _is_same(words: Sequence[int], text: ScriptText, line: type[LineAssembler]) -> bool:
    """Check whether lines assemble to words, references to labels and nodes apart."""
    got = _assembled([each for _, each in text.code], line)
    return got is not None and got == _masked(words)


def _raw_where_needed(walk: "_Walk", assembler: type[LineAssembler]) -> list[tuple[int, str]]:
    """Return the lines, with data lines in place of those that assemble to other words."""
    lines = []
    for at, line in walk.lines():
        size = length(Instruction.from_word(walk.words[at]))
        words = walk.words[at : at + size]
        if line[0].isdigit() or _assembled([line], assembler) == _masked(words):
            lines.append((at, line))
        else:
            lines += [(at + index, _raw(word)) for index, word in enumerate(words)]
    return lines


def _assembled(lines: list[str], assembler: type[LineAssembler]) -> list[int] | None:
    """Return the words of lines, their references zero; None if they are not instructions."""
    messages = Messages()
    parsed = parse_text("\n".join(["script 0", "script_code", *lines]), Path("code"), messages)
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
        code = assemble(blocks, parsed.scripts[0].place, messages, assembler)
        messages.check()
    except TextError:
        return None
    return _masked(code.words)


def _masked(words: Sequence[int]) -> list[int]:
    """Return words without the distances of jumps and the offsets of labels."""
    masked = list(words)
    at = 0
    while at < len(words):
        instruction = Instruction.from_word(words[at])
        form, size = form_of(instruction), length(instruction)
        if form is not None and form.has(Plain.TARGET):
            masked[at] &= ~0xFFF
        if form is not None and form.has(LabelOf) and size == 2:
            masked[at + 1 : at + 2] = [0] * len(masked[at + 1 : at + 2])
        at += size
    return masked


def _raw(word: int) -> str:
    return f"1 h32; {word:08X}"


class _Walk:
    """The words of code, and the labels that its lines ask for."""

    def __init__(
        self,
        words: Sequence[int],
        parameter_bytes: int,
        heap_bytes: int,
        nodes: Mapping[int, str],
        line: type[LineAssembler],
    ) -> None:
        self.words = words
        self.sizes = {"param": parameter_bytes, "heap": heap_bytes}
        self.nodes = nodes
        self.line = line
        self.starts: set[int] = set()
        at = 0
        while at < len(words):
            self.starts.add(at)
            at += length(Instruction.from_word(words[at]))
        self.starts.add(len(words))
        self.targets: set[int] = set()
        self.labels: dict[str, set[int]] = {"param": set(), "heap": set()}

    def lines(self) -> list[tuple[int, str]]:
        """Return each line with the index of its word."""
        lines = []
        at = 0
        while at < len(self.words):
            instruction = Instruction.from_word(self.words[at])
            end = at + length(instruction)
            try:
                form = form_of(instruction)
                if form is None or end > len(self.words) or instruction.condition not in _CONDITIONS:
                    raise _NoTextError
                lines.append((at, _CONDITIONS[instruction.condition] + self._line(at, form, instruction)))
            except _NoTextError:
                lines += [(index, _raw(self.words[index])) for index in range(at, min(end, len(self.words)))]
            at = end
        return lines

    def _line(self, at: int, form: Form, instruction: Instruction) -> str:
        parts = []
        for element in form.text:
            if isinstance(element, str):
                parts.append(element)
            else:
                parts.append(_WRITERS[kind_of(element)](self, at, instruction, element))
                if isinstance(element, Reg) and element.optional and not parts[-1]:
                    # Behind the first absent register only a count can follow.
                    parts += [self.count(at, instruction, each) for each in form.text if each is Plain.COUNT]
                    break
        return " ".join(filter(None, parts))

    # The operands of the table.

    def register(self, _at: int, instruction: Instruction, element: Reg) -> str:
        """Return the name of a register; nothing for one that is absent."""
        index: int = getattr(instruction, element.field)
        if element.optional and index == NO_REGISTER:
            return ""
        return _name(index)

    def registers(self, _at: int, instruction: Instruction, _: Plain) -> str:
        """Return the registers up to the first absent one."""
        places = (instruction.dst, instruction.src1, instruction.src2, instruction.src3, instruction.src4)
        given = places[: places.index(NO_REGISTER)] if NO_REGISTER in places else places
        return " ".join(map(_name, given))

    def value(self, at: int, instruction: Instruction, _: Plain) -> str:
        value = self.operand(at, instruction)
        if instruction.opar == 0:
            return value
        if instruction.opar not in _ALU_NAMES:
            raise _NoTextError
        return f"{_ALU_NAMES[instruction.opar]} {_name(instruction.src1)} {value}"

    def operand(self, at: int, instruction: Instruction, _: Plain | None = None) -> str:
        constant = instruction.constant
        if constant is not None:
            return str(constant)
        if length(instruction) == 1:
            return _name(instruction.src2)
        kind = _type(instruction.src2)
        bits = self.words[at + 1]
        if kind in FLOATS:
            value = number_of(bits, kind)
            if kind == Type.FLOAT and struct.pack("<f", value) != struct.pack("<I", bits):
                raise _NoTextError
            return f"#{kind.name.lower()} {value!r}"
        return f"#{kind.name.lower()} {number_of(bits, kind)}"

    def type(self, _at: int, instruction: Instruction, _: TypeName) -> str:
        return self.line.type_name(_type(_constant(instruction)))

    def label(self, at: int, instruction: Instruction, element: LabelOf) -> str:
        """Return the label at an offset, or the node at a position."""
        if length(instruction) == 1:
            raise _NoTextError
        offset = self.words[at + 1]
        if element.block not in self.sizes:
            if offset not in self.nodes:
                raise _NoTextError
            return self.nodes[offset]
        if offset > self.sizes[element.block]:
            raise _NoTextError
        self.labels[element.block].add(offset)
        return f"{element.block[0].upper()}{offset}"

    def target(self, at: int, instruction: Instruction, _: Plain) -> str:
        target = at + _constant(instruction)
        if target not in self.starts:
            raise _NoTextError
        self.targets.add(target)
        return f"L{target}"

    def pointer(self, _at: int, instruction: Instruction, element: Pointer) -> str:
        """Return a register in brackets, and its offset."""
        name = _name(getattr(instruction, element.field))
        if instruction.low & PRE:
            return f"[ {name} {_constant(instruction)} ]{'+' if instruction.low & UPDATE else ''}"
        if instruction.low & UPDATE:
            return f"[ {name} ]+ {_constant(instruction)}"
        return f"[ {name} ]"

    def bits(self, _at: int, instruction: Instruction, _: Plain) -> str:
        return f"| {instruction.low & 63} {instruction.low >> 6 & 63} |"

    def service(self, _at: int, instruction: Instruction, _: Plain) -> str:
        return str(instruction.low & 63)

    def count(self, _at: int, instruction: Instruction, _: Plain) -> str:
        return str(_constant(instruction))


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


_WRITERS: Final[dict[type[Element] | Plain, Callable[[_Walk, int, Instruction, Any], str]]] = {
    Reg: _Walk.register,
    Plain.REGISTERS: _Walk.registers,
    Plain.VALUE: _Walk.value,
    Plain.OPERAND: _Walk.operand,
    TypeName: _Walk.type,
    LabelOf: _Walk.label,
    Plain.TARGET: _Walk.target,
    Pointer: _Walk.pointer,
    Plain.BITS: _Walk.bits,
    Plain.SERVICE: _Walk.service,
    Plain.COUNT: _Walk.count,
}
