"""The errors of relocatable images."""

import enum
from dataclasses import dataclass

from aisrv.values.printable import PrintableError


class RelocatableError(PrintableError):
    """Base of errors; the message says what was wrong, where, and what to do."""


class ImageError(RelocatableError):
    """An image that does not follow its format, or lacks what is asked of it."""


class BuildError(RelocatableError):
    """A model that cannot become an image, or a compiler that is missing or fails."""


class MachineError(RelocatableError):
    """The machine cannot be set up: a package is missing, or memory is mapped twice."""


class ErrorType(enum.IntEnum):
    """Type of a runtime error: the source's names, numbers of our own."""

    NONE = 0
    INVALID_HANDLE = 0x10
    INVALID_STATE = 0x11
    INVALID_INPUT = 0x12
    INVALID_OUTPUT = 0x13
    INIT_FAILED = 0x30
    CREATE_FAILED = 0x33


class ErrorCode(enum.IntEnum):
    """The code of a runtime error."""

    NONE = 0
    NETWORK = 0x10
    NETWORK_WEIGHTS = 0x12
    NETWORK_ACTIVATIONS = 0x13
    INVALID_PTR = 0x17
    MISSED_INIT = 0x30


class Cause(enum.IntEnum):
    """Reason why an image was not installed."""

    INVALID_BIN = -1
    MEMORY = -2
    NOT_SUPPORTED = -3
    PARAM = -4


@dataclass(frozen=True, slots=True)
class NetworkErrorWord:
    """The 32-bit error of a network: the type in bits 7:0, the code in 31:8."""

    type: int
    code: int

    @classmethod
    def from_word(cls, word: int) -> "NetworkErrorWord":
        return cls(word & 0xFF, word >> 8)

    def __int__(self) -> int:
        return self.type | self.code << 8

    def __str__(self) -> str:
        return f"{_name(ErrorType, self.type)}, {_name(ErrorCode, self.code)}"


def _name(names: type[enum.IntEnum], number: int) -> str:
    return names(number).name if number in names.__members__.values() else f"{number:#x}"


class RuntimeFailure(RelocatableError):
    """A call of the runtime that failed: `error` as the source gives it, and `cause` of an installation."""

    def __init__(self, text: str, kind: ErrorType, code: ErrorCode, cause: Cause | None = None) -> None:
        super().__init__(text)
        self.error = NetworkErrorWord(kind, code)
        self.cause = cause


class ExecutionFault(RelocatableError):
    """Code of an image went where it may not, or did not return in time; its instance is dead."""
