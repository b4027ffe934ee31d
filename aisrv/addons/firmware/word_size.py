"""Programs of 64 bits or of 32: the compiler's options for them, and what this machine needs for those of 32.

With 32 bits `long`, `size_t` and pointers have the sizes of the chip's, and structures its layout: members of
64 bits, too, begin at multiples of 4 there. Source: "Firmware in C on the substrate", section Memory.
"""

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from aisrv.addons.firmware.errors import FirmwareError

_OPTIONS: Final[Mapping[int, tuple[str, ...]]] = {
    64: (),
    32: (
        "-m32",
        "-msse2",  # floats of 32 bits are computed as such, as with 64 bits and on the chip
        "-mfpmath=sse",
        "-fasynchronous-unwind-tables",
        "-idirafter",  # the kernel's headers on Debian, but for gcc-multilib, which removes cross compilers
        "/usr/include/x86_64-linux-gnu",
    ),
}
_PROBE: Final = '#include <errno.h>\n#include <stdio.h>\nint main(void) { return puts("") < 0; }\n'
_APT: Final = "sudo apt-get install --no-install-recommends"  # gcc-multilib: it removes cross compilers
INSTALL: Final = f"{_APT} libc6-dev-i386 lib32gcc-$(gcc -dumpversion)-dev"
"""What installs all of it on Debian."""
INSTALL_CPP: Final = f"{_APT} lib32stdc++-$(gcc -dumpversion)-dev"
"""What installs the library of C++, too."""


class WordSizeError(FirmwareError):
    """This machine makes or runs no programs of 32 bits."""

    def __init__(self, reason: str, helps: str | None = None) -> None:
        super().__init__(reason if helps is None else f"{reason}: {helps}")
        self.reason: Final = reason
        self.helps: Final = helps
        """The command that helps, or None."""


def word_size_options(bits: int) -> tuple[str, ...]:
    """Return the options of compiler and linker for programs with addresses of so many bits."""
    return _OPTIONS[bits]


def word_size_of(options: Sequence[str]) -> int:
    """Return the bits that options of a compiler ask for."""
    return 32 if "-m32" in options else 64


def check_32_bits(compiler: str, *, is_cpp: bool = False) -> None:
    """Compile and run a small program of 32 bits, in C, then also in C++.

    Raises WordSizeError with what installs what is missing.
    """
    with tempfile.TemporaryDirectory(prefix="aisrv-firmware-") as folder:
        program = Path(folder, "probe")
        if not _compiles(compiler, program, "-x", "c", "-"):
            raise WordSizeError(f"{compiler} finds no headers and libraries of 32 bits", INSTALL)
        try:
            subprocess.run([program], stdout=subprocess.DEVNULL, check=True)
        except FileNotFoundError:
            raise WordSizeError("there is no C library of 32 bits", INSTALL) from None
        except (OSError, subprocess.CalledProcessError) as error:
            raise WordSizeError(f"this machine's kernel runs no programs of 32 bits, {error}") from None
        if is_cpp and not _compiles(compiler, program, "-x", "c++", "-include", "new", "-", "-lstdc++"):
            raise WordSizeError(f"{compiler} finds no library of C++ of 32 bits", INSTALL_CPP)


def _compiles(compiler: str, program: Path, *options: str) -> bool:
    call = (compiler, *_OPTIONS[32], *options, "-o", str(program))
    return not subprocess.run(call, input=_PROBE, capture_output=True, text=True, check=False).returncode
