"""The host's compiler, as builds of firmware call theirs.

    python -m aisrv.addons.firmware.cc -c main.c -o main.o

Options of XMOS's compiler that have no counterpart are left out. What it links is the program of a tile, as
`aisrv firmware run` makes them.
"""

import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from aisrv.addons.firmware.compiler import (
    CFLAGS,
    CHECKS,
    LDFLAGS,
    cache,
    find_compiler,
    runtime,
)
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.inline_assembly import assembler_options
from aisrv.addons.firmware.word_size import check_32_bits, word_size_of, word_size_options

_OF_XMOS: Final = (
    "-target=",
    "-report",
    "-fxscope",
    "-fcmdline-buffer-bytes=",
    "-mcmodel=",
    "-mno-dual-issue",
)
_OF_NO_TILE: Final = ("-mx32",)
_NO_ASSEMBLY: Final = frozenset(("-S", "-E", "-fsyntax-only", "--version", "-v"))


def command(compiler: str, arguments: Sequence[str]) -> list[str]:
    """Return the call of the host's compiler.

    Raises FirmwareError where the runtime does not compile, or an option makes other programs.
    """
    own = [argument for argument in arguments if not argument.startswith(_OF_XMOS)]
    if (option := next((each for each in own if each in _OF_NO_TILE), None)) is not None:
        raise FirmwareError(f"{option}: addresses of a tile's program have 64 bits, or with -m32 32")
    bits = word_size_of(own)
    begin = [compiler, "-std=gnu11", *CFLAGS, *word_size_options(bits), *CHECKS]
    if not own or _NO_ASSEMBLY.intersection(own):
        return [*begin, *own]
    call = [*begin, *assembler_options(compiler, cache()), *own]
    if "-c" in own:
        return call
    return [*call, *runtime(compiler, bits=bits), *LDFLAGS, "-lm"]


def main() -> int:
    """Call the host's compiler, and return its exit code."""
    try:
        compiler, arguments = find_compiler(), sys.argv[1:]
        code = subprocess.run(command(compiler, arguments), check=False).returncode
        if code and word_size_of(arguments) == 32:
            check_32_bits(compiler)
        return code
    except FirmwareError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
