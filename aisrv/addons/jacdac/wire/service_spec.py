"""What a Jacdac service has: registers, commands and events, declared in one table for each service.

The table is what a service is served by, what its frames are decoded with, and what its documentation is
made of: `document` returns that as Markdown.
"""

import enum
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from aisrv.addons.jacdac.wire.packing import Packing

GET: Final = 0x1000
SET: Final = 0x2000
EVENT: Final = 0x8000
CODE_MASK: Final = 0x0FFF
"""The bits of a command that say which register it is of."""
KIND_MASK: Final = 0xF000
EVENT_CODE_MASK: Final = 0xFF
NOT_IMPLEMENTED: Final = 0x0003
"""The report that answers a command that a service does not know."""


class Access(enum.Enum):
    """Who changes a register."""

    RW = "rw"
    """A client, by a set."""
    RO = "ro"
    """The device."""
    CONST = "const"
    """Nobody."""


@dataclass(frozen=True, slots=True)
class Register:
    """A register: get it with 0x1000 + code, set it with 0x2000 + code."""

    code: int
    name: str
    packing: Packing
    access: Access
    text: str
    optional: bool = False
    """Whether services of the class may lack it."""


@dataclass(frozen=True, slots=True)
class Action:
    """A command, and what its report of the same code holds; None where it has no report."""

    code: int
    name: str
    packing: Packing
    report: Packing | None
    text: str


@dataclass(frozen=True, slots=True)
class Event:
    """An event: a report that is sent three times, and counted."""

    code: int
    name: str
    packing: Packing
    text: str


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """A service class."""

    name: str
    service_class: int
    text: str
    registers: tuple[Register, ...] = ()
    actions: tuple[Action, ...] = ()
    events: tuple[Event, ...] = ()
    by_code: Mapping[int, Register] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_code", {register.code: register for register in self.registers})

    def register(self, name: str) -> Register:
        """Return the register of a name."""
        return next(register for register in self.registers if register.name == name)

    def action(self, name: str) -> Action:
        """Return the command of a name."""
        return next(action for action in self.actions if action.name == name)

    def event(self, name: str) -> Event:
        """Return the event of a name."""
        return next(event for event in self.events if event.name == name)


def rw(code: int, name: str, packing: str, text: str, *, optional: bool = False) -> Register:
    """Declare a register that clients set."""
    return Register(code, name, Packing(packing), Access.RW, text, optional)


def ro(code: int, name: str, packing: str, text: str, *, optional: bool = False) -> Register:
    """Declare a register that the device changes."""
    return Register(code, name, Packing(packing), Access.RO, text, optional)


def const(code: int, name: str, packing: str, text: str, *, optional: bool = False) -> Register:
    """Declare a register that never changes."""
    return Register(code, name, Packing(packing), Access.CONST, text, optional)


BASE_REGISTERS: Final = (
    const(0x109, "instance_name", "s", "The name of this service on the device.", optional=True),
    ro(0x103, "status_code", "u16 u16", "0 ready, 1 initializing; a code of the vendor.", optional=True),
    rw(0x009, "client_variant", "s", "What clients note about the service.", optional=True),
)
"""What every service has."""

STATUS_CODE_CHANGED: Final = Event(
    0x04, "status_code_changed", Packing("u16 u16"), "`status_code` has changed to this."
)


def document(specs: Iterable[ServiceSpec]) -> str:
    """Return the tables of service classes in Markdown."""
    return "\n".join(line for spec in specs for line in _document_one(spec))


def _document_one(spec: ServiceSpec) -> list[str]:
    lines = [f"### {spec.name}, 0x{spec.service_class:08X}", "", spec.text, ""]
    lines += ["| code | name | packing | meaning |", "|---|---|---|---|"]
    for action in spec.actions:
        report = "" if action.report is None else f" → {_packing(action.report)}"
        packing = _packing(action.packing) + report
        lines.append(f"| command 0x{action.code:02X} | {action.name} | {packing} | {action.text} |")
    for register in spec.registers:
        code, packing = f"{register.access.value} 0x{register.code:03X}", _packing(register.packing)
        lines.append(f"| {code} | {register.name} | {packing} | {register.text} |")
    for event in spec.events:
        lines.append(
            f"| event 0x{event.code:02X} | {event.name} | {_packing(event.packing)} | {event.text} |"
        )
    return [*lines, ""]


def _packing(packing: Packing) -> str:
    return f"`{packing.format}`" if packing.format else "nothing"
