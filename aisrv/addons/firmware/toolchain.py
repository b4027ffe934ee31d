"""CMake's toolchain file for builds of firmware: their programs become programs of tiles.

Source: "Firmware in C on the substrate", section Sources and headers.
"""

import hashlib
import sys
from pathlib import Path

from aisrv.addons.firmware.compiler import cache
from aisrv.values.whole_file import write_whole

_PLATFORM = 'set(CMAKE_EXECUTABLE_SUFFIX ".xe")\n'


def toolchain_text(python: str, modules: Path) -> str:
    """Return the text of the file; `modules` is the folder with what CMake asks for the system."""
    return f"""# Builds firmware for `aisrv firmware`: the host's compiler, and a tile's runtime.
set(CMAKE_SYSTEM_NAME XCORE_XS3A)
set(CMAKE_C_COMPILER "{python}" "-P" "-m" "aisrv.addons.firmware.cc")
set(CMAKE_C_COMPILER_WORKS TRUE)
set(CMAKE_C_COMPILER_ID GNU)
set(CMAKE_C_COMPILER_ID_RUN TRUE)
set(CMAKE_C_COMPILER_FORCED TRUE)
list(APPEND CMAKE_MODULE_PATH "{modules}")
"""


def write_toolchain() -> Path:
    """Write the file for this Python where programs are kept, and return it."""
    python = sys.executable
    folder = cache() / f"toolchain-{hashlib.sha256(f'{python}{_PLATFORM}'.encode()).hexdigest()[:16]}"
    (folder / "Platform").mkdir(parents=True, exist_ok=True)
    write_whole(folder / "Platform" / "XCORE_XS3A.cmake", [_PLATFORM.encode()])
    path = folder / "aisrv.cmake"
    write_whole(path, [toolchain_text(python, folder).encode()])
    return path
