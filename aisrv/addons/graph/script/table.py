"""The instructions of scripts: the text, the fields, and the function of each.

Assembler, disassembler and machine read this table. A text is a row of literal words, and of operands, which
say their fields of the word.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Final

from aisrv.addons.graph.script import meanings
from aisrv.addons.graph.script.instructions import (
    JUMP_BITS,
    LONG,
    MOVE,
    NO_REGISTER,
    NO_VALUE,
    SPECIAL,
    TESTS,
    Condition,
    Instruction,
    Special,
)
from aisrv.addons.graph.script.state import ScriptState


@dataclass(frozen=True, slots=True)
class Reg:
    """A register in a field; one that is optional is 12 if it is absent."""

    field: str
    optional: bool = False
    is_public: bool = False
    """Whether only the public compiler takes it."""


class Plain(Enum):
    """An operand that is always in the same bits."""

    REGISTERS = auto()
    """One to five registers in DST, SRC1, SRC2, SRC3, SRC4."""
    VALUE = auto()
    """K12: `x`, or with OPAR and SRC1 `alu a x`."""
    OPERAND = auto()
    """K12: a constant or a register."""
    TARGET = auto()
    """K12: the distance to a label of the code, in words."""
    BITS = auto()
    """`| lsb msb |`: bits 5:0 and 11:6."""
    SERVICE = auto()
    """Bits 5:0."""
    COUNT = auto()
    """K12: a number of places of the stack."""


@dataclass(frozen=True, slots=True)
class TypeName:
    """K12: DTYPE by its name. `bare` is that of the text without the word `type`."""

    bare: bool = False


@dataclass(frozen=True, slots=True)
class LabelOf:
    """A label of a block, or a node of the graph: K12 says so, the next word is its offset or position."""

    block: str


@dataclass(frozen=True, slots=True)
class Pointer:
    """`[ r ]`, `[ r ]+ k`, `[ r k ]` or `[ r k ]+`: a register in a field, update, pre, and k in K12."""

    field: str


Element = str | Reg | TypeName | LabelOf | Pointer | Plain


def kind_of(element: Element) -> "type[Element] | Plain":
    """Return the kind of an operand, by which it is read and written."""
    return element if isinstance(element, Plain) else type(element)


@dataclass(frozen=True, slots=True)
class Form:
    """An instruction. `opar` is None if the value says it."""

    op: int
    opar: int | None
    text: tuple[Element, ...]
    meaning: Callable[[ScriptState, Instruction], bool | None]
    """Runs it; returns False to end the run."""
    low: int = 0
    """Bits 13:0 besides its operands."""
    src1: int = 0
    """SRC1 if no operand is in it."""

    def has(self, *kinds: "type[Element] | Plain") -> bool:
        """Check whether it has an operand of one of these kinds."""
        return any(kind_of(element) in kinds for element in self.text)


DST, SRC1, SRC3, SRC4 = Reg("dst"), Reg("src1"), Reg("src3"), Reg("src4")
_DST, _SRC1, _SRC3, _SRC4 = (Reg(name, optional=True) for name in ("dst", "src1", "src3", "src4"))


def _special(opar: Special, *text: Element, meaning: Callable[..., bool | None], **more: int) -> Form:
    return Form(SPECIAL, opar, text, meaning, **more)


def _label(opar: Special, block: str) -> tuple[Form, Form]:
    """`set r block L`, also with `#` before the block."""
    return (
        _special(opar, "set", DST, block, LabelOf(block), meaning=meanings.set_pointer),
        _special(opar, "set", DST, f"#{block}", LabelOf(block), meaning=meanings.set_pointer),
    )


FORMS: Final = (
    *(Form(op, None, (f"test_{name}", DST, Plain.VALUE), meanings.test) for name, op in TESTS.items()),
    Form(TESTS["equ"], None, ("test_eq", DST, Plain.VALUE), meanings.test),
    _special(Special.SET_TYPE, "set", DST, "type", TypeName(), meaning=meanings.set_type),
    _special(Special.SET_TYPEPTR, "set", DST, "typeptr", TypeName(), meaning=meanings.set_type),
    _special(Special.SET_BASE, "set", DST, "base", Plain.OPERAND, meaning=meanings.set_range),
    _special(Special.SET_SIZE, "set", DST, "size", Plain.OPERAND, meaning=meanings.set_range),
    *_label(Special.SET_PARAM, "param"),
    *_label(Special.SET_HEAP, "heap"),
    *_label(Special.SET_GRAPH, "graph"),
    _special(Special.SET_TYPE, "set", DST, TypeName(bare=True), meaning=meanings.set_type),
    _special(Special.STORE, Pointer("dst"), "=", SRC1, meaning=meanings.store),
    _special(Special.LOAD, DST, "=", Pointer("src1"), meaning=meanings.load),
    _special(Special.INSERT_BITS, DST, Plain.BITS, "=", SRC1, meaning=meanings.insert_bits),
    _special(Special.EXTRACT_BITS, DST, "=", SRC1, Plain.BITS, meaning=meanings.extract_bits),
    _special(Special.SWAP, "swap", DST, SRC1, meaning=meanings.swap, low=NO_VALUE),
    _special(Special.DELETE, "delete", _DST, Plain.COUNT, meaning=meanings.delete),
    _special(Special.JUMP, "jump", Plain.TARGET, _DST, _SRC1, meaning=meanings.branch, low=JUMP_BITS),
    _special(
        Special.BANZ, "banz", Plain.TARGET, DST, Reg("src1", optional=True, is_public=True),
        meaning=meanings.branch, low=JUMP_BITS, src1=NO_REGISTER,
    ),
    _special(Special.CALL, "call", Plain.TARGET, _DST, _SRC1, meaning=meanings.branch, low=JUMP_BITS),
    _special(Special.CALLSYS, "callsys", Plain.SERVICE, _DST, _SRC1, _SRC3, _SRC4, meaning=meanings.callsys),
    _special(Special.SAVE, "save", Plain.REGISTERS, meaning=meanings.save),
    _special(Special.RESTORE, "restore", Plain.REGISTERS, meaning=meanings.restore),
    _special(Special.RETURN, "return", meaning=meanings.return_, low=NO_VALUE),
    Form(MOVE, None, (DST, "=", Plain.VALUE), meanings.assign),
)  # fmt: skip
"""All instructions. If a text fits several, or a word has several texts, the first counts."""

CONDITIONS: Final = {"if_yes": Condition.IF_YES, "if_no": Condition.IF_NO, "if_not": Condition.IF_NO}
"""Words before an instruction that depends on the flag."""

_BY_OPAR: Final = {(form.op, form.opar): form for form in reversed(FORMS)}


def form_of(instruction: Instruction) -> Form | None:
    """Return the instruction of a word, or None."""
    return _BY_OPAR.get((instruction.op, instruction.opar)) or _BY_OPAR.get((instruction.op, None))


def length(instruction: Instruction) -> int:
    """Return the words of an instruction: two if its K12 says that the next word is its value."""
    k12 = instruction.k12
    if k12 >= 1 << 5 or not k12 & LONG:
        return 1
    form = form_of(instruction)
    return 2 if form is not None and form.has(Plain.VALUE, Plain.OPERAND, LabelOf) else 1


def code_length(words: Sequence[int]) -> int:
    """Return the number of words that a run can reach: parameters follow them.

    The words do not say where code ends, so it is found by its flow: every instruction goes on to the next,
    except an unconditional jump or return. Jumps out of the words lead nowhere.
    """
    reached = 0
    pending = [0]
    seen = set()
    while pending:
        at = pending.pop()
        while 0 <= at < len(words) and at not in seen:
            seen.add(at)
            instruction = Instruction.from_word(words[at])
            end = at + length(instruction)
            reached = max(reached, min(end, len(words)))
            form = form_of(instruction)
            if form is not None and form.has(Plain.TARGET) and instruction.constant is not None:
                pending.append(at + instruction.constant)
            leaves = form is not None and form.opar in (Special.JUMP, Special.RETURN)
            if leaves and instruction.condition == Condition.ALWAYS:
                break
            at = end
    return reached
