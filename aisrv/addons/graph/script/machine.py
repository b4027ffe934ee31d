"""The machine that runs scripts, instruction by instruction.

A run is bounded: it ends with `return`, with a fault, or with the fault of too many instructions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.addons.graph.binary.model import ScriptArc
from aisrv.addons.graph.script.instructions import Condition, Instruction, Type
from aisrv.addons.graph.script.state import Register, ScriptFault, ScriptState, Services
from aisrv.addons.graph.script.table import code_length, form_of, length

MOST_INSTRUCTIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault with its place: the index of the word in the script, and the word."""

    kind: str
    text: str
    at: int
    word: int


class ScriptMachine(ScriptState):
    """One script, and how it runs."""

    def __init__(self, words: Sequence[int], arc: ScriptArc, services: Services) -> None:
        super().__init__(words, code_length(words), arc, services)

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
