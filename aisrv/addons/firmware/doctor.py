"""What `aisrv doctor` says of the C compiler."""

from collections.abc import Iterator
from typing import Final

from aisrv.addons.firmware.compiler import find_compiler
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.word_size import WordSizeError
from aisrv.addons.firmware.word_size import check_32_bits as try_32_bits
from aisrv.cli.doctor import Finding, State

C_USE: Final = "tasks in C, aisrv firmware"
C_32_USE: Final = "tasks in C of 32 bits, --bits 32"


def findings() -> Iterator[Finding]:
    """Look for the compiler, and for what it needs to make programs of 32 bits."""
    yield check_compiler()
    yield check_32_bits()


def check_compiler() -> Finding:
    """Find the C compiler for tasks in C."""
    try:
        return Finding("C compiler", State.WORKS, find_compiler(), use=C_USE)
    except FirmwareError as error:
        return Finding("C compiler", State.MISSING, str(error), "sudo apt-get install gcc", C_USE)


def check_32_bits() -> Finding:
    """Compile and run a program of 32 bits."""
    try:
        try_32_bits(find_compiler())
    except WordSizeError as error:
        return Finding("C of 32 bits", State.MISSING, error.reason, error.helps, C_32_USE)
    except FirmwareError as error:
        return Finding("C of 32 bits", State.MISSING, str(error), "sudo apt-get install gcc", C_32_USE)
    return Finding("C of 32 bits", State.WORKS, "compiles and runs", use=C_32_USE)
