"""Compiling and linking with Debian's `gcc-arm-none-eabi`.

Source: "Runtime-loadable model images", section Building images.
"""

import functools
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from importlib.resources import as_file, files
from pathlib import Path
from typing import Final

from aisrv.model.relocatable.container import Core, FloatAbi, Variant
from aisrv.model.relocatable.errors import BuildError
from aisrv.values.regular_file import read_regular

COMPILER: Final = "arm-none-eabi-gcc"

SOURCES: Final = ("kernels.c", "network.c")
LINKER_SCRIPT: Final = "image.ld"

CORES: Final = (Core.CORTEX_M4, Core.CORTEX_M7, Core.CORTEX_M33)

_KEPT: Final = ("vectors", "flags", "context")

_FPUS: Final = {
    Core.CORTEX_M4: "fpv4-sp-d16",
    Core.CORTEX_M7: "fpv5-d16",
    Core.CORTEX_M33: "fpv5-sp-d16",
}

_FLAGS: Final = (
    "-mthumb",
    "-O2",
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffreestanding",
    "-fno-common",
    "-fno-tree-loop-distribute-patterns",
    "-ffunction-sections",
)

_RELOCATABLE: Final = (
    "-fpic",
    "-msingle-pic-base",
    "-mpic-register=r9",
    # Without it data are reached relative to the pc, which breaks once RAM and code move apart.
    "-mno-pic-data-is-text-relative",
)


def compile_image(source: str, variant: Variant, keep: Sequence[str] = ()) -> bytes:
    """Compile the source of a network with our kernels to a linked ELF file with its relocations.

    `keep` are symbols that nothing refers to and that stay. Raises BuildError with the compiler's words.
    """
    return _compile(source, variant, (*_FLAGS, *_RELOCATABLE), (*_KEPT, *keep))


def compile_static(source: str, variant: Variant) -> bytes:
    """Compile the same for a fixed place, as part of a firmware, for comparison."""
    return _compile(source, variant, _FLAGS, _KEPT)


def _compile(source: str, variant: Variant, flags: Sequence[str], keep: Sequence[str]) -> bytes:
    options = (*target_flags(variant), *flags)
    objects = _objects(options)
    with (
        as_file(files("aisrv.addons.kernels.images") / "c") as folder,
        tempfile.TemporaryDirectory(prefix="aisrv-reloc-") as scratch,
    ):
        generated, output = Path(scratch, "model.c"), Path(scratch, "image.elf")
        generated.write_text(source)
        ours = [Path(scratch, name).with_suffix(".o") for name in SOURCES]
        for path, data in zip(ours, objects, strict=True):
            path.write_bytes(data)
        run_compiler(
            (
                *options,
                f"-I{folder}",
                *map(str, ours),
                str(generated),
                "-nostdlib",
                "-T",
                str(folder / LINKER_SCRIPT),
                "-Wl,--emit-relocs,--gc-sections,--no-warn-rwx-segments,-e0,--build-id=none",
                *(f"-Wl,-u,{symbol}" for symbol in keep),
                "-lgcc",
                "-o",
                str(output),
            )
        )
        return read_regular(output)


@functools.cache
def _objects(options: tuple[str, ...]) -> tuple[bytes, ...]:
    """Compile our kernels, once for all images of a process; they take most of the time."""
    with (
        as_file(files("aisrv.addons.kernels.images") / "c") as folder,
        tempfile.TemporaryDirectory(prefix="aisrv-reloc-") as scratch,
    ):
        output = Path(scratch, "object.o")
        found = []
        for name in SOURCES:
            run_compiler((*options, f"-I{folder}", "-c", str(folder / name), "-o", str(output)))
            found.append(read_regular(output))
        return tuple(found)


def target_flags(variant: Variant) -> Iterator[str]:
    """Return the compiler's options for the flags of an image; BuildError for a core without any."""
    if variant.core not in CORES:
        raise BuildError(
            f"{variant.core.label}: images are built for {', '.join(core.label for core in CORES)}"
        )
    yield f"-mcpu={variant.core.label}"
    yield f"-mfloat-abi={variant.float_abi.name.lower()}"
    if variant.float_abi is not FloatAbi.SOFT:
        yield f"-mfpu={_FPUS[variant.core]}"


def run_compiler(arguments: Sequence[str]) -> None:
    """Run the compiler. Raises BuildError."""
    program = shutil.which(COMPILER)
    if program is None:
        raise BuildError(f"{COMPILER} is not installed: apt-get install gcc-arm-none-eabi")
    done = subprocess.run(
        [program, *arguments], capture_output=True, text=True, errors="replace", check=False
    )
    if done.returncode:
        raise BuildError(f"{COMPILER} failed:\n{done.stderr.strip()}")
