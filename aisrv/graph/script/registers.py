"""Registers of scripts, and the faults that end a run."""

from dataclasses import dataclass

from aisrv.graph.script.instructions import Type


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
