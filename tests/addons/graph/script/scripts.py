"""Scripts for tests: assembled from their text, with services that note what is asked of them."""

from dataclasses import dataclass, field
from pathlib import Path

from aisrv.addons.graph.binary.model import ScriptArc
from aisrv.addons.graph.errors import Messages
from aisrv.addons.graph.script.assembler import Code, assemble
from aisrv.addons.graph.script.instructions import Type
from aisrv.addons.graph.script.line import LineAssembler
from aisrv.addons.graph.script.machine import Fault, ScriptMachine
from aisrv.addons.graph.script.values import Number, number_of
from aisrv.addons.graph.text.parser import parse_text


@dataclass
class NotedServices:
    """Notes calls; answers with `moved` bytes, and writes 1, 2, 3 … where data are read."""

    calls: list[tuple[object, ...]] = field(default_factory=list)
    moved: int = 3

    def _note(self, name: str, number: int, command: int, data: memoryview) -> int:
        self.calls.append((name, number, command, bytes(data)))
        if not data.readonly:
            data[:] = bytes(range(1, len(data) + 1))
        return self.moved

    def node(self, address: int, command: int, data: memoryview) -> int:
        return self._note("node", address, command, data)

    def arc(self, arc: int, command: int, data: memoryview) -> int:
        return self._note("arc", arc, command, data)

    def io_settings(self, io: int, command: int, data: memoryview) -> int:
        return self._note("io", io, command, data)

    def application(self, number: int, *parameters: int) -> None:
        self.calls.append(("application", number, *parameters))

    def time(self, time_format: int) -> tuple[int, int]:
        self.calls.append(("time", time_format))
        return 0x11, 0x22


def code_of(text: str, line: type[LineAssembler] = LineAssembler) -> Code:
    """The code of the lines of a script; `script_parameters` and `script_heap` may follow."""
    messages = Messages()
    parsed = parse_text(f"script 0\nscript_code\n{text}\nend", Path("script.txt"), messages)
    section = parsed.scripts[0]
    code = assemble(section.blocks, section.place, messages, line)
    messages.check()
    return code


def words_of(line: str) -> list[int]:
    """The words of one instruction."""
    return code_of(line).words


@dataclass
class Ran:
    """A machine after a run."""

    machine: ScriptMachine
    fault: Fault | None
    services: NotedServices

    def value(self, register: int) -> Number:
        found = self.machine.registers[register]
        return number_of(found.value, found.kind)

    def kind(self, register: int) -> Type:
        return self.machine.registers[register].kind

    @property
    def stack(self) -> list[int]:
        return [each.value for each in self.machine.stack[: self.machine.depth]]


def machine_of(text: str, registers: int = 12, stack: int = 6) -> ScriptMachine:
    code = code_of(text)
    heap = (code.heap_bytes + 3) // 4
    arc = ScriptArc(registers=registers + 1, stack=stack, buffer_words=2 * (registers + 1) + 2 * stack + heap)
    return ScriptMachine(code.all_words(), arc, NotedServices())


def run(text: str, *, flag: bool = False, registers: int = 12, stack: int = 6) -> Ran:
    """Run lines of a script; `return` is put at the end of the code."""
    for tag in ("script_parameters", "script_heap"):
        if tag in text:
            text = text.replace(tag, f"return\n{tag}", 1)
            break
    else:
        text += "\nreturn"
    machine = machine_of(text, registers, stack)
    fault = machine.run(flag=flag)
    assert isinstance(machine.services, NotedServices)
    return Ran(machine, fault, machine.services)
