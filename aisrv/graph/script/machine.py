"""The machine that runs scripts: registers, a stack, a heap, and services of the graph around it.

A run is bounded: it ends with `return`, with a fault, or with the fault of too many instructions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from aisrv.graph.script.instructions import (
    JUMPS,
    LONG,
    NO_REGISTER,
    PRE,
    SPECIAL,
    STACK_PUSH,
    STACK_TOP,
    TYPE_BYTES,
    UPDATE,
    Condition,
    Instruction,
    Special,
    Type,
    code_length,
)
from aisrv.graph.script.values import (
    ADDMOD,
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    NORM,
    SUBMOD,
    Number,
    bits_of,
    integer_of,
    normalize,
    number_of,
    result_type,
    single,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from aisrv.graph.model import ScriptArc

MOST_INSTRUCTIONS: Final = 1000
HEAP: Final = 1 << 24
"""The bit of a type word that says that a pointer counts from the heap."""
ARC_READ: Final = 9
IO_READ: Final = 3
NODE_READ: Final = 3
TIME_FORMATS: Final = (41, 42, 43, 44)
_BARE_REGISTERS: Final = 6


class ScriptFault(Exception):
    """What ends a run: `kind` is register, stack, memory, opcode, service or limit."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind} fault: {text}")
        self.kind = kind
        self.text = text


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault with its place: the index of the word in the script, and the word."""

    kind: str
    text: str
    at: int
    word: int


class Services(Protocol):
    """What `callsys` asks of the graph. Data may be written where they are writable; ScriptFault refuses."""

    def node(self, address: int, command: int, data: memoryview) -> int:
        """Call the node at a word of the graph; the bytes moved."""

    def arc(self, arc: int, command: int, data: memoryview) -> int:
        """Write data to an arc (8) or read it (9); the bytes moved."""

    def application(self, number: int, *parameters: int) -> None:
        """Call the application's callback."""

    def io_settings(self, io: int, command: int, data: memoryview) -> int:
        """Set (2) or read (3) the settings of an IO; the bytes moved."""

    def time(self, time_format: int) -> tuple[int, int]:
        """The time in a format 41 to 44: low and high word."""


@dataclass(slots=True)
class Register:
    """A value word and a type word: heap 24, BASE 23:14, SIZE 13:4, DTYPE 3:0."""

    value: int = 0
    type: int = Type.INT32

    @property
    def kind(self) -> Type:
        """DTYPE; ScriptFault where there is none with that number."""
        return _type(self.type & 15)


class ScriptMachine:
    """One script with its memory. Registers and heap persist between runs; `reset` clears them."""

    def __init__(self, words: Sequence[int], arc: ScriptArc, services: Services) -> None:
        self.words = tuple(words)
        start = code_length(list(words))
        data = b"".join(word.to_bytes(4, "little") for word in self.words[start:])
        self.parameters = memoryview(data)
        self.services = services
        count = arc.registers if arc.registers == _BARE_REGISTERS else max(arc.registers - 1, 0)
        self.register_count = min(count, NO_REGISTER)
        self.stack_size = arc.stack
        heap = max(arc.buffer_words - 2 * arc.registers - 2 * arc.stack, 0)
        self.heap = bytearray(4 * heap)
        self.reset()

    def reset(self) -> None:
        """Clear registers and heap."""
        self.registers = [Register() for _ in range(self.register_count)]
        self.stack = [Register() for _ in range(max(self.stack_size, 1))]
        self.heap[:] = bytes(len(self.heap))
        self.depth = 0
        self.flag = False

    def run(self, *, flag: bool = False, r0: int | None = None, r1: int | None = None) -> Fault | None:
        """Run from the start with a flag, and r0 and r1 where given; the fault that ended it, or None."""
        self.flag = flag
        self.pc = self.depth = self.calls = 0
        for index, value in enumerate((r0, r1)):
            if value is not None and index < len(self.registers):
                self.registers[index] = Register(value & 0xFFFFFFFF, Type.UINT32)
        at = 0
        try:
            for _ in range(MOST_INSTRUCTIONS):
                at = self.pc
                if not self._step():
                    return None
            raise ScriptFault("limit", f"more than {MOST_INSTRUCTIONS} instructions")
        except ScriptFault as fault:
            word = self.words[at] if 0 <= at < len(self.words) else 0
            return Fault(fault.kind, fault.text, at, word)

    def _step(self) -> bool:
        """Do one instruction; False when the run ends."""
        if not 0 <= self.pc < len(self.words):
            raise ScriptFault("memory", f"the code has words 0 to {len(self.words) - 1}, not {self.pc}")
        instruction = Instruction.from_word(self.words[self.pc])
        self.at = self.pc
        self.pc += instruction.words
        if instruction.condition == 3:
            raise ScriptFault("opcode", "condition 3")
        if instruction.condition == (Condition.IF_NO if self.flag else Condition.IF_YES):
            return True
        if instruction.op == SPECIAL:
            handler = _SPECIALS.get(instruction.opar)
            if handler is None:
                raise ScriptFault("opcode", f"OPAR {instruction.opar} of OP 7")
            return handler(self, instruction) is not False
        if instruction.op in COMPARISONS:
            value = self._operand(instruction)
            tested = self.read(instruction.dst)
            self.flag = COMPARISONS[instruction.op](
                number_of(tested.value, tested.kind), number_of(value.value, value.kind)
            )
        else:
            self._assign(instruction)
        return True

    # Registers and the stack

    def read(self, index: int) -> Register:
        """The register of an operand; reading sp1 pops."""
        if index == STACK_PUSH:
            return self._pop()
        return self._place(index)

    def write(self, index: int, value: int, kind: int) -> None:
        """Set a register, type word included; writing sp1 pushes."""
        if index == STACK_PUSH:
            if self.depth >= self.stack_size:
                raise ScriptFault("stack", f"the stack has {self.stack_size} places")
            self.depth += 1
            index = STACK_TOP
        self._place(index)
        new = Register(value & 0xFFFFFFFF, kind)
        if index == STACK_TOP:
            self.stack[max(self.depth - 1, 0)] = new
        else:
            self.registers[index] = new

    def _place(self, index: int) -> Register:
        if index == STACK_TOP:
            return self.stack[max(self.depth - 1, 0)]
        if index >= len(self.registers):
            raise ScriptFault("register", f"r{index} of {len(self.registers)}")
        return self.registers[index]

    def _pop(self) -> Register:
        if not self.depth:
            raise ScriptFault("stack", "the stack is empty")
        self.depth -= 1
        return self.stack[self.depth]

    def _number(self, index: int) -> int:
        """The value of a register as integer; 0 where the operand is absent."""
        if index == NO_REGISTER:
            return 0
        register = self.read(index)
        return integer_of(number_of(register.value, register.kind))

    def _operand(self, instruction: Instruction) -> Register:
        """The value of K12: a constant, the next word, or a register."""
        constant = instruction.constant
        if constant is not None:
            return Register(constant & 0xFFFFFFFF, Type.INT32)
        if not instruction.k12 & LONG:
            return self.read(instruction.src2)
        if self.at + 1 >= len(self.words):
            raise ScriptFault("memory", "the constant lies behind the end")
        return Register(self.words[self.at + 1], _type(instruction.src2))

    # Assignments

    def _assign(self, instruction: Instruction) -> None:
        if instruction.opar == NORM:
            self._norm(instruction)
            return
        second = self._operand(instruction)
        if instruction.opar == 0:
            self.write(instruction.dst, second.value, second.type)
            return
        first = self.read(instruction.src1)
        kind = result_type(first.kind, second.kind)
        a, b = number_of(first.value, first.kind), number_of(second.value, second.kind)
        result: Number
        if instruction.opar in ARITHMETIC:
            if kind == Type.FLOAT:
                a, b = single(a), single(b)
            result = ARITHMETIC[instruction.opar](a, b)
        elif instruction.opar in (ADDMOD, SUBMOD):
            kind = Type.INT32 if kind == Type.FLOAT else kind
            result = _modulo(first, integer_of(a), integer_of(b) * (1 if instruction.opar == ADDMOD else -1))
        elif instruction.opar in BITWISE:
            kind = Type.INT32 if kind == Type.FLOAT else kind
            result = BITWISE[instruction.opar](integer_of(a), integer_of(b))
        else:
            raise ScriptFault("opcode", f"there is no operation {instruction.opar}")
        self.write(instruction.dst, bits_of(result, kind), (first.type & ~15) | kind)

    def _norm(self, instruction: Instruction) -> None:
        if instruction.k12 & ~15:
            raise ScriptFault("opcode", "norm without a register for the count")
        first = self.read(instruction.src1)
        value, count = normalize(integer_of(number_of(first.value, first.kind)))
        self.write(instruction.src2, count, Type.INT32)
        kind = Type.UINT32 if result_type(first.kind, first.kind) == Type.UINT32 else Type.INT32
        self.write(instruction.dst, value, kind)

    def _set_type(self, instruction: Instruction) -> None:
        kind = _type(_constant(instruction))
        register = self._place_of(instruction.dst)
        register.type = (register.type & ~15) | kind

    def _set_range(self, instruction: Instruction) -> None:
        value = self._operand(instruction)
        whole = integer_of(number_of(value.value, value.kind)) & 0x3FF
        register = self._place_of(instruction.dst)
        shift = 14 if instruction.opar == Special.SET_BASE else 4
        register.type = (register.type & ~(0x3FF << shift)) | whole << shift

    def _place_of(self, index: int) -> Register:
        if index == STACK_PUSH:
            raise ScriptFault("register", "the type of sp1 cannot be set")
        return self._place(index)

    def _set_pointer(self, instruction: Instruction) -> None:
        offset = self._operand(instruction)
        if instruction.opar == Special.SET_GRAPH:
            self.write(instruction.dst, offset.value, Type.UINT32)
        else:
            heap = HEAP if instruction.opar == Special.SET_HEAP else 0
            self.write(instruction.dst, offset.value, heap | Type.UINT8)

    # Memory

    def _memory(self, pointer: Register, offset: int, size: int, *, write: bool) -> memoryview:
        is_heap = bool(pointer.type & HEAP)
        memory = memoryview(self.heap) if is_heap else self.parameters
        what = "heap" if is_heap else "parameters"
        if not (offset >= 0 and size >= 0 and offset + size <= len(memory)):
            raise ScriptFault("memory", f"bytes {offset} to {offset + size} of {len(memory)} of the {what}")
        if write and memory.readonly:
            raise ScriptFault("memory", "parameters cannot be written")
        return memory[offset : offset + size]

    def _address(self, pointer: Register, low: int) -> int:
        """The address that a pointer and bits 13:0 give; the pointer is updated where they say so."""
        constant = (low & 0xFFF) - 2048
        if low & (UPDATE | PRE) == 0:
            return pointer.value
        if not constant >= -2016:
            raise ScriptFault("opcode", "a pointer with an offset that is not a constant")
        before, after = pointer.value, (pointer.value + constant) & 0xFFFFFFFF
        if low & UPDATE:
            pointer.value = after
        return after if low & PRE else before

    def _store(self, instruction: Instruction) -> None:
        source = self.read(instruction.src1)
        value = number_of(source.value, source.kind)
        pointer = self._place_of(instruction.dst)
        kind = pointer.kind
        address = self._address(pointer, instruction.low)
        memory = self._memory(pointer, address, TYPE_BYTES[kind], write=True)
        memory[:] = (bits_of(value, kind) & ((1 << 8 * len(memory)) - 1)).to_bytes(len(memory), "little")

    def _load(self, instruction: Instruction) -> None:
        pointer = self._place_of(instruction.src1)
        kind = pointer.kind
        address = self._address(pointer, instruction.low)
        memory = self._memory(pointer, address, TYPE_BYTES[kind], write=False)
        self.write(instruction.dst, int.from_bytes(memory, "little"), kind)

    def _insert_bits(self, instruction: Instruction) -> None:
        lsb, mask = _bit_range(instruction)
        value = self._number(instruction.src1)
        register = self._place_of(instruction.dst)
        register.value = (register.value & ~(mask << lsb) | (value & mask) << lsb) & 0xFFFFFFFF

    def _extract_bits(self, instruction: Instruction) -> None:
        lsb, mask = _bit_range(instruction)
        register = self.read(instruction.src1)
        value = integer_of(number_of(register.value, register.kind))
        self.write(instruction.dst, value >> lsb & mask, Type.UINT32)

    # The flow

    def _swap(self, instruction: Instruction) -> None:
        second, first = self.read(instruction.src1), self.read(instruction.dst)
        values = (first.value, first.type, second.value, second.type)
        self.write(instruction.src1, values[0], values[1])
        self.write(instruction.dst, values[2], values[3])

    def _delete(self, instruction: Instruction) -> None:
        count = _constant(instruction)
        if not 0 <= count <= self.depth:
            raise ScriptFault("stack", f"{count} places of {self.depth} cannot be deleted")
        top = self._place(STACK_TOP)
        self.depth -= count
        if instruction.dst != NO_REGISTER:
            self.write(instruction.dst, top.value, top.type)

    def _branch(self, instruction: Instruction) -> None:
        target = self.at + _constant(instruction)
        if instruction.opar == Special.BANZ:
            register = self._place_of(instruction.dst)
            register.value = (register.value - 1) & 0xFFFFFFFF
            if not register.value:
                return
        else:
            given = [index for index in (instruction.dst, instruction.src1) if index != NO_REGISTER]
            for register in [self.read(index) for index in given]:
                self.write(STACK_PUSH, register.value, register.type)
            if instruction.opar == Special.CALL:
                self.write(STACK_PUSH, self.pc, Type.UINT32)
                self.calls += 1
        self.pc = target

    def _return(self, _: Instruction) -> bool:
        if not self.calls:
            return False
        self.calls -= 1
        self.pc = self._pop().value
        return True

    def _save(self, instruction: Instruction) -> None:
        for index in _register_list(instruction):
            register = self.read(index)
            self.write(STACK_PUSH, register.value, register.type)

    def _restore(self, instruction: Instruction) -> None:
        for index in reversed(_register_list(instruction)):
            register = self._pop()
            self.write(index, register.value, register.type)

    # Services

    def _callsys(self, instruction: Instruction) -> None:
        handler = _SERVICES.get(instruction.low & 63)
        if handler is None:
            raise ScriptFault("service", f"there is no service {instruction.low & 63}")
        handler(self, instruction)

    def _service_with_data(
        self, instruction: Instruction, call: Callable[[int, int, memoryview], int], read_command: int
    ) -> None:
        """Call a service with (number, command, data, bytes); the last operand gets the bytes moved."""
        size = self._number(instruction.src4)
        pointer = instruction.src3
        # The data's register comes before the command's: operands act from right to left.
        held = self.read(pointer) if pointer != NO_REGISTER else None
        command, number = self._number(instruction.src1), self._number(instruction.dst)
        write = command & 15 == read_command
        data = memoryview(b"") if held is None else self._memory(held, held.value, size, write=write)
        moved = call(number, command, data)
        if instruction.src4 != NO_REGISTER:
            self.write(instruction.src4, moved, Type.INT32)

    def _node_service(self, instruction: Instruction) -> None:
        self._service_with_data(instruction, self.services.node, NODE_READ)

    def _arc_service(self, instruction: Instruction) -> None:
        self._service_with_data(instruction, self.services.arc, ARC_READ)

    def _io_service(self, instruction: Instruction) -> None:
        self._service_with_data(instruction, self.services.io_settings, IO_READ)

    def _application_service(self, instruction: Instruction) -> None:
        places = (instruction.src4, instruction.src3, instruction.src1, instruction.dst)
        third, second, first, number = (self._number(index) for index in places)
        self.services.application(number, first, second, third)

    def _time_service(self, instruction: Instruction) -> None:
        time_format = self._number(instruction.dst)
        if time_format not in TIME_FORMATS:
            raise ScriptFault("service", f"there is no time format {time_format}")
        low, high = self.services.time(time_format)
        for index, value in ((instruction.src3, high), (instruction.src1, low)):
            if index != NO_REGISTER:
                self.write(index, value, Type.UINT32)


def _type(code: int) -> Type:
    try:
        return Type(code)
    except ValueError:
        raise ScriptFault("opcode", f"there is no type {code}") from None


def _constant(instruction: Instruction) -> int:
    constant = instruction.constant
    if constant is None:
        raise ScriptFault("opcode", "a constant is missing")
    return constant


def _bit_range(instruction: Instruction) -> tuple[int, int]:
    """The lowest bit and the mask of the bits from there."""
    lsb, msb = instruction.low & 63, instruction.low >> 6 & 63
    if not lsb <= msb < 32:
        raise ScriptFault("opcode", f"bits {lsb} to {msb}")
    return lsb, (1 << (msb - lsb + 1)) - 1


def _register_list(instruction: Instruction) -> list[int]:
    """The registers of `save` and `restore`, in the order of the text."""
    places = (instruction.dst, instruction.src1, instruction.src2, instruction.src3, instruction.src4)
    return [index for index in places if index != NO_REGISTER]


def _modulo(register: Register, value: int, step: int) -> int:
    """A value moved by a step in BASE to BASE + SIZE - 1; without a SIZE, anywhere."""
    base, size = register.type >> 14 & 0x3FF, register.type >> 4 & 0x3FF
    return base + (value - base + step) % size if size else value + step


_SPECIALS: Final[dict[int, Callable[[ScriptMachine, Instruction], bool | None]]] = {
    Special.SET_TYPE: ScriptMachine._set_type,
    Special.SET_TYPEPTR: ScriptMachine._set_type,
    Special.SET_BASE: ScriptMachine._set_range,
    Special.SET_SIZE: ScriptMachine._set_range,
    Special.SET_PARAM: ScriptMachine._set_pointer,
    Special.SET_HEAP: ScriptMachine._set_pointer,
    Special.SET_GRAPH: ScriptMachine._set_pointer,
    Special.STORE: ScriptMachine._store,
    Special.LOAD: ScriptMachine._load,
    Special.INSERT_BITS: ScriptMachine._insert_bits,
    Special.EXTRACT_BITS: ScriptMachine._extract_bits,
    Special.SWAP: ScriptMachine._swap,
    Special.DELETE: ScriptMachine._delete,
    **dict.fromkeys(JUMPS, ScriptMachine._branch),
    Special.CALLSYS: ScriptMachine._callsys,
    Special.SAVE: ScriptMachine._save,
    Special.RESTORE: ScriptMachine._restore,
    Special.RETURN: ScriptMachine._return,
}
_SERVICES: Final[dict[int, Callable[[ScriptMachine, Instruction], None]]] = {
    1: ScriptMachine._node_service,
    2: ScriptMachine._arc_service,
    3: ScriptMachine._application_service,
    4: ScriptMachine._io_service,
    9: ScriptMachine._time_service,
}
