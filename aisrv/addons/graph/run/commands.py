"""Commands, return modes and identity of an interpreter."""

import enum
from dataclasses import dataclass

from aisrv.addons.graph.binary.model import Node


class Command(enum.IntEnum):
    """Commands of an interpreter, and of a node in the lowest bits of its command word."""

    RESET = 1
    SET_PARAMETER = 2
    READ_PARAMETER = 3
    RUN = 4
    STOP = 5
    UPDATE_RELOCATABLE = 6


class ReturnMode(enum.IntEnum):
    """Moment at which a RUN returns."""

    NODE = 1
    """After each node examined; the next RUN goes on behind it."""
    PASS = 2
    """After one pass over the nodes."""
    STARVED = 3
    """After a pass in which no node moved a byte."""


class DebugEvent(enum.IntFlag):
    """Moments at which the debug script runs."""

    BEFORE_NODE = 1
    AFTER_NODE = 2
    END_OF_PASS = 4
    RUN_ENTERED = 8
    RUN_LEFT = 16


@dataclass(frozen=True, slots=True)
class Identity:
    """Identity of an interpreter: nodes may be bound to it, and its locks name it."""

    priority: int = 0
    processor: int = 1
    architecture: int = 1

    @property
    def byte(self) -> int:
        """Collision byte of the arcs that it has locked; not 0."""
        return self.priority << 6 | self.processor << 3 | self.architecture

    def may_run(self, node: Node) -> bool:
        """Check whether nothing that the node is bound to is another's."""
        head = node.head
        bound = (
            (head.priority, self.priority),
            (head.processor, self.processor),
            (head.architecture, self.architecture),
        )
        return all(not wanted or wanted == own for wanted, own in bound)
