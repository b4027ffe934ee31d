"""What the instructions of scripts use of the machine that runs them, and the machine of the graph."""

from typing import Protocol

from aisrv.graph.script.instructions import Instruction
from aisrv.graph.script.registers import Register


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


class Machine(Protocol):
    """A machine, as an instruction sees it. All methods raise ScriptFault."""

    services: Services
    flag: bool
    at: int
    """The word of the instruction."""
    pc: int
    """The word that comes next."""
    depth: int
    """Places of the stack that are taken."""
    calls: int
    """Calls that have not returned."""

    def read(self, index: int) -> Register:
        """The register of an operand; reading sp1 pops."""

    def write(self, index: int, value: int, kind: int) -> None:
        """Set a register, type word included; writing sp1 pushes."""

    def place(self, index: int) -> Register:
        """A register, or the top of the stack."""

    def place_of(self, index: int) -> Register:
        """The register of an operand that is changed where it is."""

    def pop(self) -> Register:
        """Take the top of the stack."""

    def number(self, index: int) -> int:
        """The value of a register as integer; 0 where the operand is absent."""

    def operand(self, instruction: Instruction) -> Register:
        """The value of K12: a constant, the next word, or a register."""

    def memory(self, pointer: Register, offset: int, size: int, *, write: bool) -> memoryview:
        """Bytes from an offset of what a pointer points into."""
