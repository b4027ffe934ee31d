"""The machine that runs scripts: registers, a stack, a heap, and services of the graph around it.

A run is bounded: it ends with `return`, with a fault, or with the fault of too many instructions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.graph.binary.model import ScriptArc
from aisrv.graph.script.instructions import (
    LONG,
    NO_REGISTER,
    STACK_PUSH,
    STACK_TOP,
    Condition,
    Instruction,
    Type,
)
from aisrv.graph.script.interface import Services
from aisrv.graph.script.meanings import HEAP
from aisrv.graph.script.registers import Register, ScriptFault, type_of
from aisrv.graph.script.table import code_length, form_of, length
from aisrv.graph.script.values import integer_of, number_of

MOST_INSTRUCTIONS: Final = 1000
_BARE_REGISTERS: Final = 6


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault with its place: the index of the word in the script, and the word."""

    kind: str
    text: str
    at: int
    word: int


class ScriptMachine:
    """One script with its memory. Registers and heap persist between runs; `reset` clears them."""

    def __init__(self, words: Sequence[int], arc: ScriptArc, services: Services) -> None:
        self.words = tuple(words)
        start = code_length(words)
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
        self.registers = [Register() for _ in range(self.register_count)]
        self.stack = [Register() for _ in range(max(self.stack_size, 1))]
        self.heap[:] = bytes(len(self.heap))
        self.depth = 0
        self.flag = False

    def run(self, *, flag: bool = False, r0: int | None = None, r1: int | None = None) -> Fault | None:
        """Run from the start with a flag, and r0 and r1 if given; return the fault that ended it, or None."""
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
        """Run one instruction; return False when the run ends."""
        if not 0 <= self.pc < len(self.words):
            raise ScriptFault("memory", f"the code has words 0 to {len(self.words) - 1}, not {self.pc}")
        instruction = Instruction.from_word(self.words[self.pc])
        self.at = self.pc
        self.pc += length(instruction)
        if instruction.condition == 3:
            raise ScriptFault("opcode", "condition 3")
        if instruction.condition == (Condition.IF_NO if self.flag else Condition.IF_YES):
            return True
        form = form_of(instruction)
        if form is None:
            raise ScriptFault("opcode", f"OPAR {instruction.opar} of OP {instruction.op}")
        return form.meaning(self, instruction) is not False

    # Registers and the stack

    def read(self, index: int) -> Register:
        if index == STACK_PUSH:
            return self.pop()
        return self.place(index)

    def write(self, index: int, value: int, kind: int) -> None:
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
        if index == NO_REGISTER:
            return 0
        register = self.read(index)
        return integer_of(number_of(register.value, register.kind))

    def operand(self, instruction: Instruction) -> Register:
        constant = instruction.constant
        if constant is not None:
            return Register(constant & 0xFFFFFFFF, Type.INT32)
        if not instruction.k12 & LONG:
            return self.read(instruction.src2)
        if self.at + 1 >= len(self.words):
            raise ScriptFault("memory", "the constant lies behind the end")
        return Register(self.words[self.at + 1], type_of(instruction.src2))

    def place_of(self, index: int) -> Register:
        if index == STACK_PUSH:
            raise ScriptFault("register", "the type of sp1 cannot be set")
        return self.place(index)

    def memory(self, pointer: Register, offset: int, size: int, *, write: bool) -> memoryview:
        is_heap = bool(pointer.type & HEAP)
        memory = memoryview(self.heap) if is_heap else self.parameters
        what = "heap" if is_heap else "parameters"
        if not (offset >= 0 and size >= 0 and offset + size <= len(memory)):
            raise ScriptFault("memory", f"bytes {offset} to {offset + size} of {len(memory)} of the {what}")
        if write and memory.readonly:
            raise ScriptFault("memory", "parameters cannot be written")
        return memory[offset : offset + size]
