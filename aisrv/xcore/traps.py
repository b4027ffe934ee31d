"""Traps: what stops a core. Numbers are those of lib_xcore's `trycatch.h`."""

import enum
from typing import NoReturn


class TrapKind(enum.IntEnum):
    """The exception types that this substrate can raise."""

    LINK_ERROR = 1
    """An output with no destination set."""
    ILLEGAL_INSTRUCTION = 3
    """An instruction, or a function of C, that a tile does not have."""
    ILLEGAL_RESOURCE = 4
    """A token of the wrong kind, a resource in the wrong state, freed, or one more than there are."""
    LOAD_STORE = 5
    """An access to memory that the tile does not have."""
    ARITHMETIC = 7
    """A division by zero, or one that overflows."""
    ECALL = 8
    """The program gave up by itself, as a failed assertion does, or by an exception of Python."""
    RESOURCE_DEP = 9
    """A second core on a resource that another core is using."""


class XcoreError(Exception):
    """Base of all errors of the substrate."""


class Trap(XcoreError):
    """A core broke a rule of the architecture. On silicon that core stops and the others run on.

    `reason` is what happened, `place` where, as messages begin.
    """

    def __init__(self, kind: TrapKind, reason: str, place: str | None = None) -> None:
        super().__init__(f"{kind.name} ({kind.value}): {reason}")
        self.kind = kind
        self.reason = reason
        self.place = place
        """The verb and its resource, such as `inuint on chanend 0x80000102`; None where there is no verb."""


class SizeError(XcoreError, ValueError):
    """A count or size that nothing can have."""


class InterruptError(XcoreError):
    """Interrupts where there are none, or of what has none."""


class Deadlock(XcoreError):
    """Every core is parked and nothing is left that could wake one; the message says who waits on what."""


def check_size(size: int, what: str) -> None:
    """Raise SizeError for a negative number of bytes, or of anything else.

    `what` begins the message.
    """
    if size < 0:
        raise SizeError(f"{what}: {size} is less than 0")


def trap_of(error: Exception) -> tuple[Exception, Trap]:
    """Return the error that stopped a core, the first trap of a group if there is one, and its trap.

    What is no trap is one of kind ECALL, as a program that gave up; its reason begins with the error's notes.
    """
    traps = error.split(Trap)[0] if isinstance(error, ExceptionGroup) else None
    cause: Exception = error if traps is None else traps
    while isinstance(cause, ExceptionGroup):
        cause = cause.exceptions[0]
    if isinstance(cause, Trap):
        return cause, cause
    text = f"{type(cause).__name__}: {cause}" if str(cause) else type(cause).__name__
    trap = Trap(TrapKind.ECALL, ": ".join((*getattr(cause, "__notes__", ()), text)))
    trap.__cause__ = cause
    return cause, trap


def ecall(reason: str) -> NoReturn:
    """Trap the calling core with ECALL and a `reason`, as a failed assertion of the firmware does."""
    raise Trap(TrapKind.ECALL, reason)
