"""Relocatable images of tests: synthetic ones of given sizes, committed ones, and freshly compiled ones."""

import functools
import shutil
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pytest
from msgspec.structs import replace

from aisrv.addons.kernels.images.build import build_image
from aisrv.addons.kernels.images.compiler import COMPILER
from aisrv.addons.kernels.relocatable.runtime import Handle, Runtime
from aisrv.model.relocatable.container import RAM, ROM, VECTORS, Header, Variant, align4
from tests.support.paths import ROOT

IMAGES: Final = ROOT / "tests/addons/kernels/relocatable/images"
DIGITS: Final = IMAGES / "digits-cortex-m4.nbin"
DIGITS_M33: Final = IMAGES / "digits-cortex-m33.nbin"
DIGITS_FPU: Final = IMAGES / "digits-cortex-m7-fpu.nbin"


def needs_compiler() -> None:
    """Skip a test that compiles where there is no compiler."""
    pytest.importorskip("elftools", reason="pip install pyelftools unicorn")
    if shutil.which(COMPILER) is None:
        pytest.skip(f"{COMPILER} is not installed: apt-get install gcc-arm-none-eabi")


@functools.cache
def fresh_image(model: bytes, variant: Variant) -> bytes:
    """Compile an image of a model, once for all tests of a process."""
    return build_image(model, "fresh", variant).image


@dataclass(frozen=True)
class Layout:
    """The sizes of a synthetic image; its bytes do nothing."""

    flags: int
    data: int
    got_start: int
    got: int
    bss: int
    ro: int
    rel: int
    weights: int
    ctx: int
    activations: int = 0
    name: str = "network"

    def header(self) -> Header:
        """The header of such an image."""
        got_end = self.got_start + self.got
        rel_start = self.ro + got_end
        rel_end = rel_start + self.rel
        vectors = dict.fromkeys(VECTORS, ROM << 28 | 101)
        return Header(
            flags=self.flags,
            data_start=RAM << 28,
            data_end=RAM << 28 | self.data,
            data_data=ROM << 28 | self.ro,
            bss_start=RAM << 28 | got_end,
            bss_end=RAM << 28 | got_end + self.bss,
            got_start=RAM << 28 | self.got_start,
            got_end=RAM << 28 | got_end,
            rel_start=ROM << 28 | rel_start,
            rel_end=ROM << 28 | rel_end,
            weights_start=ROM << 28 | rel_end if self.weights else 0,
            weights_end=ROM << 28 | rel_end + self.weights if self.weights else 0,
            ctx=RAM << 28 | self.ctx,
            **vectors,
        )

    def image(self, header: Header | None = None) -> bytes:
        """The image, with another header if given."""
        name = self.name.encode() + b"\0"
        code = bytes(header or self.header()).ljust(self.ro - 32, b"\0") + name.ljust(32, b"\0")
        assert len(code) == self.ro
        initial = bytearray(self.got_start + self.got)
        context = (0, 0, 0, 0, 0, ROM << 28 | self.ro - 32, self.activations, self.weights)
        struct.pack_into("<8I", initial, self.ctx, *context)
        c_name = self.ctx + 20
        others = (place for place in range(0, align4(self.data), 4) if place != c_name)
        targets = [c_name, *(next(others) for _ in range(self.rel // 4 - 1))]
        return (
            code
            + initial
            + struct.pack(f"<{len(targets)}I", *(RAM << 28 | t for t in targets))
            + bytes(self.weights)
        )

    def changed(self, **fields: int) -> bytes:
        """The image with other values in its header."""
        return self.image(replace(self.header(), **fields))


SEED: Final = Layout(
    flags=0x20085C27, data=6708, got_start=6712, got=268, bss=300, ro=39532, rel=1980, weights=24368,
    ctx=6000, activations=18252,
)  # fmt: skip
"""The report of the source, for a Cortex-M7; .got lies 4 bytes past .data, as in known images."""
SPLIT: Final = Layout(
    flags=0x20085D21, data=0x7A8, got_start=0x7AC, got=148, bss=148, ro=11500, rel=512, weights=0, ctx=0x76C,
)  # fmt: skip
"""The second one, for a Cortex-M33, with its weights apart."""


def digits_image() -> bytes:
    """The committed image of the digits network for a Cortex-M4."""
    return DIGITS.read_bytes()


def read(path: Path) -> bytes:
    """The bytes of a committed image."""
    return path.read_bytes()


def unmap_flash(runtime: Runtime, handle: Handle) -> None:
    """Take the flash away from the processor that runs an instance."""
    span = runtime.flash.span
    runtime.machine(handle)._uc.mem_unmap(span.start, span.end - span.start)
