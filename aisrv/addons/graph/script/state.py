"""The memory of a script that runs: registers, a stack, a heap and parameters; the faults that end a run."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from aisrv.addons.graph.binary.model import ScriptArc
from aisrv.addons.graph.script.instructions import LONG, NO_REGISTER, STACK_PUSH, STACK_TOP, Instruction, Type
from aisrv.addons.graph.script.values import integer_of, number_of

HEAP: Final = 1 << 24
"""The bit of a type word that says that a pointer counts from the heap."""
_BARE_REGISTERS: Final = 6


class ScriptFault(Exception):
    """End of a run: `kind` is register, stack, memory, opcode, service or limit."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind} fault: {text}")
        self.kind = kind
        self.text = text


@dataclass(slots=True)
class Register:
    """A value word and a type word: heap 24, BASE 23:14, SIZE 13:4, DTYPE 3:0."""

    value: int = 0
    type: int = Type.INT32

    @property
    def kind(self) -> Type:
        """DTYPE. Raises ScriptFault for an unknown number."""
        return type_of(self.type & 15)


def type_of(code: int) -> Type:
    """Return the type with a number. Raises ScriptFault for an unknown one."""
    try:
        return Type(code)
    except ValueError:
        raise ScriptFault("opcode", f"unknown type {code}") from None


class Services(Protocol):
    """Services of the graph for `callsys`. `data` may be writable memory. Raises ScriptFault."""

    def node(self, address: int, command: int, data: memoryview) -> int:
        """Call the node at a word of the graph; return the bytes moved."""

    def arc(self, arc: int, command: int, data: memoryview) -> int:
        """Write data to an arc (8) or read it (9); return the bytes moved."""

    def application(self, number: int, *parameters: int) -> None:
        """Call the application's callback."""

    def io_settings(self, io: int, command: int, data: memoryview) -> int:
        """Set (2) or read (3) the settings of an IO; return the bytes moved."""

    def time(self, time_format: int) -> tuple[int, int]:
        """Return the time in a format 41 to 44: low and high word."""


class ScriptState:
    """One script with its memory, as its instructions see it. All methods but `reset` raise ScriptFault.

    Registers and heap persist between runs; `reset` clears them.
    """

    def __init__(self, words: Sequence[int], code_words: int, arc: ScriptArc, services: Services) -> None:
        """Take the words of a script: its code, then its parameters."""
        self.words = tuple(words)
        data = b"".join(word.to_bytes(4, "little") for word in self.words[code_words:])
        self.parameters = memoryview(data)
        self.services = services
        count = arc.registers if arc.registers == _BARE_REGISTERS else max(arc.registers - 1, 0)
        self.register_count = min(count, NO_REGISTER)
        self.stack_size = arc.stack
        heap = max(arc.buffer_words - 2 * arc.registers - 2 * arc.stack, 0)
        self.heap = bytearray(4 * heap)
        self.at = 0
        """Word of the instruction."""
        self.pc = 0
        """Word that comes next."""
        self.calls = 0
        self.reset()

    def reset(self) -> None:
        self.registers = [Register() for _ in range(self.register_count)]
        self.stack = [Register() for _ in range(max(self.stack_size, 1))]
        self.heap[:] = bytes(len(self.heap))
        self.depth = 0
        """Used places of the stack."""
        self.flag = False

    def read(self, index: int) -> Register:
        """Return the register of an operand; reading sp1 pops."""
        if index == STACK_PUSH:
            return self.pop()
        return self.place(index)

    def write(self, index: int, value: int, kind: int) -> None:
        """Set a register, type word included; writing sp1 pushes."""
        if index == STACK_PUSH:
            if self.depth >= self.stack_size:
                raise ScriptFault("stack", f"the stack has {self.stack_size} places")
            self.depth += 1
            index = STACK_TOP
        self.place(index)
        new = Register(value & 0xFFFFFFFF, kind)
        if index == STACK_TOP:
            self.stack[max(self.depth - 1, 0)] = new
        else:
            self.registers[index] = new

    def place(self, index: int) -> Register:
        """Return a register, or the top of the stack."""
        if index == STACK_TOP:
            return self.stack[max(self.depth - 1, 0)]
        if index >= len(self.registers):
            raise ScriptFault("register", f"r{index} of {len(self.registers)}")
        return self.registers[index]

    def pop(self) -> Register:
        if not self.depth:
            raise ScriptFault("stack", "the stack is empty")
        self.depth -= 1
        return self.stack[self.depth]

    def number(self, index: int) -> int:
        """Return the value of a register as integer; 0 if the operand is absent."""
        if index == NO_REGISTER:
            return 0
        register = self.read(index)
        return integer_of(number_of(register.value, register.kind))

    def operand(self, instruction: Instruction) -> Register:
        """Return the value of K12: a constant, the next word, or a register."""
        constant = instruction.constant
        if constant is not None:
            return Register(constant & 0xFFFFFFFF, Type.INT32)
        if not instruction.k12 & LONG:
            return self.read(instruction.src2)
        if self.at + 1 >= len(self.words):
            raise ScriptFault("memory", "the constant lies behind the end")
        return Register(self.words[self.at + 1], type_of(instruction.src2))

    def place_of(self, index: int) -> Register:
        """Return the register of an operand that is changed in place."""
        if index == STACK_PUSH:
            raise ScriptFault("register", "the type of sp1 cannot be set")
        return self.place(index)

    def memory(self, pointer: Register, offset: int, size: int, *, write: bool) -> memoryview:
        """Return bytes from an offset of a pointer's target."""
        is_heap = bool(pointer.type & HEAP)
        memory = memoryview(self.heap) if is_heap else self.parameters
        what = "heap" if is_heap else "parameters"
        if not (offset >= 0 and size >= 0 and offset + size <= len(memory)):
            raise ScriptFault("memory", f"bytes {offset} to {offset + size} of {len(memory)} of the {what}")
        if write and memory.readonly:
            raise ScriptFault("memory", "parameters cannot be written")
        return memory[offset : offset + size]
