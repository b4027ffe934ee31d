"""Interfaces between the instructions of scripts, the machine that runs them, and the graph."""

from typing import Protocol

from aisrv.graph.script.instructions import Instruction
from aisrv.graph.script.registers import Register


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


class Machine(Protocol):
    """A machine, as an instruction sees it. All methods raise ScriptFault."""

    services: Services
    flag: bool
    at: int
    """Word of the instruction."""
    pc: int
    """Word that comes next."""
    depth: int
    """Used places of the stack."""
    calls: int
    """Calls that have not returned."""

    def read(self, index: int) -> Register:
        """Return the register of an operand; reading sp1 pops."""

    def write(self, index: int, value: int, kind: int) -> None:
        """Set a register, type word included; writing sp1 pushes."""

    def place(self, index: int) -> Register:
        """Return a register, or the top of the stack."""

    def place_of(self, index: int) -> Register:
        """Return the register of an operand that is changed in place."""

    def pop(self) -> Register: ...

    def number(self, index: int) -> int:
        """Return the value of a register as integer; 0 if the operand is absent."""

    def operand(self, instruction: Instruction) -> Register:
        """Return the value of K12: a constant, the next word, or a register."""

    def memory(self, pointer: Register, offset: int, size: int, *, write: bool) -> memoryview:
        """Return bytes from an offset of a pointer's target."""
