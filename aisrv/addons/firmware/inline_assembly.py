"""Our assembler in place of the host's, for sources with inline assembly.

Source: "Firmware in C on the substrate", section Inline assembly.
"""

import hashlib
import os
import re
import shlex
import sys
from importlib.resources import files
from pathlib import Path
from typing import Final

from aisrv.values.whole_file import write_whole

_ASSEMBLER: Final = Path(str(files("aisrv.addons.firmware"))) / "host_assembler.py"
_STATEMENT: Final = re.compile(r'\b(?:asm|__asm|__asm__)\b\s*(?:\w+\s*)*\(\s*"[^"]')
"""An `asm` with instructions; what gives a C function another name begins with an empty string."""


def has_assembly(preprocessed: str) -> bool:
    """Say whether a source has inline assembly, as the preprocessor leaves it."""
    return _STATEMENT.search(preprocessed) is not None


def assembler_options(compiler: str, cache: Path) -> tuple[str, ...]:
    """Return the options that have a compiler call our assembler, and write what it calls.

    What has no inline assembly goes to the host's `as` without a look by Python.
    """
    script = _script()
    told = hashlib.sha256(f"{script}{_ASSEMBLER.read_text()}".encode()).hexdigest()[:16]
    folder = cache / f"as-{told}"
    path = folder / "as"
    if not os.access(path, os.X_OK):
        folder.mkdir(parents=True, exist_ok=True)
        write_whole(path, [script.encode()])
        path.chmod(0o755)
    clang = ("-fno-integrated-as",) if "clang" in os.path.realpath(compiler) else ()
    return ("-B", f"{folder}/", *clang)


def _script() -> str:
    # It wants no packages, which take longer to find than it takes itself.
    ours = shlex.join((sys.executable, "-I", "-S", str(_ASSEMBLER)))
    return f"""#!/bin/sh
# Assembles what a compiler of C made of firmware: with our assembler where it has inline assembly.
for file; do :; done
if test -f "$file" && ! grep -q '^[[:space:]]*#APP' "$file"; then exec as "$@"; fi
exec {ours} "$@"
"""
