"""The report of an image: versions, sizes in flash and RAM, in the form of the source's table."""

from collections.abc import Mapping

from aisrv.model.relocatable.container import HEADER_BYTES, VERSION, Image
from aisrv.model.relocatable.errors import ImageError
from aisrv.model.relocatable.network import Network
from aisrv.model.schema import OPERATORS


def memory_layout(image: Image, *, weights_file_bytes: int = 0) -> str:
    """Return the report as text. `weights_file_bytes` is the size of a file with the weights, 0 for none."""
    sizes, variant = image.sizes, image.variant
    got_share, rel_share = 100 * sizes.got / sizes.xip, 100 * header_and_rel(image) / sizes.ro
    weights = sizes.weights or weights_file_bytes
    placed = "included in the binary file" if sizes.weights else "in a file of its own"
    title = f'Runtime Loadable Model - Memory Layout (core="{variant.core.label}", model="{image.name}")'
    made = (
        f"v{VERSION[0]}.{VERSION[1]} 'Embedded ARM GCC' cpuid={variant.core:X} fpu={variant.uses_fpu} "
        f"float-abi={variant.float_abi:d}"
    )
    rows = [
        ("XIP size", sizes.xip, f"data({sizes.data:,})+got({sizes.got:,})+bss({sizes.bss:,}) sections"),
        ("COPY size", sizes.copy, f"+ro({sizes.ro:,}) sections"),
        (
            "extra sections",
            extra(image),
            f"got:{sizes.got:,}({got_share:.1f}%) header+rel:{header_and_rel(image):,}({rel_share:.1f}%)",
        ),
        ("params size", weights, placed if weights else ""),
        ("acts size", image.context.activations_size, ""),
        ("binary file size", sizes.file, ""),
        ("params file size", weights_file_bytes, ""),
    ]
    lines = [
        title,
        "-" * 80,
        made,
        "",
        *(f"{name:<20} = {size:<11,} {note}".rstrip() for name, size, note in rows),
    ]
    return "\n".join(lines)


def as_values(image: Image) -> Mapping[str, object]:
    """Return the report as values, for JSON."""
    sizes, variant = image.sizes, image.variant
    return {
        "name": image.name,
        "version": ".".join(map(str, VERSION)),
        "core": variant.core.label,
        "cpuid": f"{variant.core:X}",
        "fpu": variant.uses_fpu,
        "float_abi": variant.float_abi.name.lower(),
        "xip": sizes.xip,
        "copy": sizes.copy,
        "ro": sizes.ro,
        "data": sizes.data,
        "got": sizes.got,
        "bss": sizes.bss,
        "rel": sizes.rel,
        "extra": extra(image),
        "flash": flash(image),
        "weights": sizes.weights,
        "activations": image.context.activations_size,
        "file": sizes.file,
        "nodes": _nodes(image),
    }


def _nodes(image: Image) -> list[Mapping[str, object]]:
    try:
        network = Network.of(image)
    except ImageError:
        return []
    return [
        {
            "operator": OPERATORS[node.operator_code],
            "name": node.name,
            "multiplications": node.multiplications,
            "instructions": node.instructions,
            "bytes_moved": node.bytes_moved,
        }
        for node in network.nodes
    ]


def header_and_rel(image: Image) -> int:
    return HEADER_BYTES + image.sizes.rel


def extra(image: Image) -> int:
    """Return the bytes that exist only because the image can be relocated."""
    return image.sizes.got + header_and_rel(image)


def flash(image: Image) -> int:
    """Return the bytes of flash without .rel and weights: the network and its kernels."""
    return image.sizes.ro + len(image.initial)
