"""Building images: one call from a `.tflite` file to an image and its weights."""

import re
from dataclasses import dataclass
from typing import Final

from aisrv.addons.kernels.images.compiler import compile_image, compile_static
from aisrv.addons.kernels.images.counting import with_counts
from aisrv.addons.kernels.images.packing import pack_image, section_sizes
from aisrv.addons.kernels.images.recording import RecordedNetwork, record
from aisrv.addons.kernels.images.source import network_source
from aisrv.addons.kernels.images.structures import KERNELS
from aisrv.model.relocatable.container import Core, Variant

DEFAULT_VARIANT: Final = Variant(Core.CORTEX_M4)


@dataclass(frozen=True, slots=True)
class BuiltImage:
    """An image, and its weights if they are in a file of their own."""

    image: bytes
    weights: bytes | None = None


def build_image(
    model: bytes, name: str = "network", variant: Variant = DEFAULT_VARIANT, *, split: bool = False
) -> BuiltImage:
    """Build an image, its weights apart with `split`; `name` becomes a C identifier. Raises BuildError."""
    network = record(model)
    elf = compile_image(network_source(c_name(name), network, variant, _kernels(network)), variant)
    image = pack_image(elf, b"" if split else network.weights)
    counted = with_counts(image, network.weights)
    return BuiltImage(counted, network.weights if split else None)


@dataclass(frozen=True, slots=True)
class StaticSizes:
    """Bytes of network and kernels as part of a firmware, at a fixed place, without weights."""

    flash: int
    ram: int


def static_sizes(model: bytes, variant: Variant = DEFAULT_VARIANT) -> StaticSizes:
    """Compile a `.tflite` file for a fixed place, to be compared with its image; else as `build_image`."""
    network = record(model)
    elf = compile_static(network_source("network", network, variant, _kernels(network)), variant)
    sizes = section_sizes(elf)
    constant = sizes[".text"] + sizes[".rodata"]
    return StaticSizes(constant + sizes[".data"], sizes[".data"] + sizes[".bss"])


def _kernels(network: RecordedNetwork) -> list[str]:
    return sorted({node.step.kernel for node in network.nodes}, key=KERNELS.index)


def build_kernels(variant: Variant = DEFAULT_VARIANT) -> bytes:
    """Build an image of all kernels, without a network."""
    network = RecordedNetwork((), (), (), 0, b"")
    elf = compile_image(network_source("kernels", network, variant, KERNELS), variant)
    return pack_image(elf, b"")


def c_name(name: str) -> str:
    """Return a C identifier like the name."""
    plain = re.sub(r"\W", "_", name, flags=re.ASCII)[:31] or "network"
    return f"_{plain}"[:31] if plain[0].isdigit() else plain


def c_array(image: bytes, name: str) -> str:
    """Return the image as the source of a C array."""
    rows = (image[start : start + 12] for start in range(0, len(image), 12))
    body = "\n".join("    " + " ".join(f"0x{byte:02x}," for byte in row) for row in rows)
    return (
        "#include <stdint.h>\n\n"
        f"/* A relocatable model image of {len(image)} bytes. */\n"
        f"__attribute__((aligned(4))) const uint8_t {c_name(name)}_image[{len(image)}] = {{\n{body}\n}};\n"
    )
