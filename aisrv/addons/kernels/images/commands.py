"""`aisrv-flash reloc`: images of models as relocatable code; their report, and how they are built."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import click

from aisrv.model.relocatable.container import Core, FloatAbi, Image, Variant, is_image
from aisrv.model.relocatable.errors import ImageError
from aisrv.model.relocatable.stored import StoredHeader, checked, merge, restored
from aisrv.terminal.command_group import CommandGroup, examples
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.terminal.option_group import option, option_group
from aisrv.values.settings.size_option import SIZE
from flash_server.client.cache import XCORE_AI_CACHE, CacheGeometry
from flash_server.commands.options import FlashSettings, pass_settings
from flash_server.errors import LayoutError
from flash_server.files import map_file, write_file
from flash_server.image.headers import IMAGE_PARTS, WEIGHTS_PARTS
from flash_server.image.image_file import Image as FlashImage

CPUS: Final = (Core.CORTEX_M4, Core.CORTEX_M7, Core.CORTEX_M33)


engine_number: Final = click.option(
    "--engine",
    type=click.IntRange(0),
    default=0,
    metavar="N",
    help="Engine whose image is taken from a flash image. [default: 0]",
)


@click.group(
    cls=CommandGroup,
    short_help="Build and show models as relocatable code.",
    epilog=examples(
        "aisrv-flash reloc build digits.tflite --output digits.nbin", "aisrv-flash reloc info digits.nbin"
    ),
)
def reloc() -> None:
    """Images of models as Arm Thumb code, to be run in place from flash or copied to RAM."""


@reloc.command(
    short_help="Show what is in an image.",
    epilog=examples("aisrv-flash reloc info digits.nbin", "aisrv-flash --json reloc info digits.nbin"),
)
@click.argument("image_file", metavar="IMAGE", type=FILE)
@click.option("--weights", type=FILE, metavar="FILE", help="File of the weights, for an image without them.")
@engine_number
@pass_settings
def info(settings: FlashSettings, image_file: Path, weights: Path | None, engine: int) -> None:
    """Check an image and show its memory layout: what it takes in flash, and in RAM in place or copied.

    IMAGE may be a flash image that holds one.
    """
    from aisrv.addons.kernels.images import report

    image, apart = _open(image_file, engine)
    size = len(apart) if weights is None else weights.stat().st_size
    settings.answer(
        report.as_values(image), lambda: click.echo(report.memory_layout(image, weights_file_bytes=size))
    )


@dataclass(frozen=True, slots=True)
class BuildSettings:
    """How to build an image."""

    cpu: str = option(
        "--cpu",
        default=Core.CORTEX_M4.label,
        type=click.Choice([core.label for core in CPUS]),
        help="Core that the code is compiled for. [default: cortex-m4]",
    )
    float_abi: str = option(
        "--float-abi",
        default="soft",
        type=click.Choice([abi.name.lower() for abi in FloatAbi]),
        help="Whether and how the image uses the FPU. [default: soft]",
    )
    name: str | None = option("--name", metavar="NAME", help="The network's name. [default: the file's]")
    split: bool = option(
        "--split", default=False, is_flag=True, help="Put the weights into a file of their own, beside it."
    )
    as_c_array: bool = option(
        "--c-array", default=False, is_flag=True, help="Also write the image as a C array, beside it."
    )

    @property
    def variant(self) -> Variant:
        abi = FloatAbi[self.float_abi.upper()]
        core = next(core for core in CPUS if core.label == self.cpu)
        return Variant(core, abi is not FloatAbi.SOFT, abi)


@reloc.command(
    short_help="Make an image of a model.",
    epilog=examples(
        "aisrv-flash reloc build digits.tflite --output digits.nbin",
        "aisrv-flash reloc build kws.tflite --cpu cortex-m7 --split --output kws.nbin",
    ),
)
@click.argument("model_file", metavar="MODEL.tflite", type=FILE)
@option_group("building", BuildSettings)
@click.option("--output", "-o", required=True, type=NEW_FILE, metavar="IMAGE", help="File for the image.")
@pass_settings
def build(settings: FlashSettings, model_file: Path, building: BuildSettings, output: Path) -> None:
    """Compile an int8 model to relocatable code, with this project's kernels and arm-none-eabi-gcc.

    With --split the weights go beside the image, into IMAGE with the suffix .weights; --c-array writes IMAGE
    with the suffix .c.
    """
    from aisrv.addons.kernels.images.build import build_image, c_array

    name = building.name or model_file.stem
    model = bytes(map_file(model_file))
    built = build_image(model, name, building.variant, split=building.split)
    written = {output: built.image}
    if built.weights is not None:
        written[output.with_suffix(".weights")] = built.weights
    if building.as_c_array:
        written[output.with_suffix(".c")] = c_array(built.image, name).encode()
    _write(settings, written, built.image, len(built.weights or b""))


@reloc.command(
    short_help="Make an image of all kernels.",
    epilog=examples("aisrv-flash reloc kernels --output kernels-cortex-m4.nbin"),
)
@option_group("building", BuildSettings)
@click.option("--output", "-o", required=True, type=NEW_FILE, metavar="IMAGE", help="File for the image.")
@pass_settings
def kernels(settings: FlashSettings, building: BuildSettings, output: Path) -> None:
    """Compile the kernels without a network: the kernel backend `relocatable` runs such an image."""
    from aisrv.addons.kernels.images.build import build_kernels

    data = build_kernels(building.variant)
    _write(settings, {output: data}, data)


def _write(
    settings: FlashSettings, written: Mapping[Path, bytes], image: bytes, weights_bytes: int = 0
) -> None:
    """Write the files of an image, and show its memory layout; `weights_bytes` are in a file of their own."""
    from aisrv.addons.kernels.images import report

    for path, data in written.items():
        write_file(path, [data], len(data))
    found = Image.from_bytes(image)
    files = "\n".join(f"{path}: {len(data)} bytes" for path, data in written.items())
    settings.answer(
        {**report.as_values(found), "files": [str(path) for path in written]},
        lambda: click.echo(f"{report.memory_layout(found, weights_file_bytes=weights_bytes)}\n\n{files}"),
    )


@reloc.command(
    short_help="Count the cache hits of a run in place.",
    epilog=examples(
        "aisrv-flash reloc fetches digits.nbin",
        "aisrv-flash reloc fetches kws.nbin --cache 16K",
        "aisrv-flash reloc fetches flash.bin --engine 1",
    ),
)
@click.argument("image_file", metavar="IMAGE", type=FILE)
@click.option(
    "--cache", type=SIZE, default=XCORE_AI_CACHE.size, metavar="SIZE", help="The cache's size. [default: 256]"
)
@click.option(
    "--ways", type=int, default=XCORE_AI_CACHE.ways, metavar="N", help="Ways of the cache. [default: 8]"
)
@click.option(
    "--line",
    type=int,
    default=XCORE_AI_CACHE.line_bytes,
    metavar="BYTES",
    help="Bytes of a line of the cache. [default: 32]",
)
@engine_number
@pass_settings
def fetches(settings: FlashSettings, image_file: Path, cache: int, ways: int, line: int, engine: int) -> None:
    """Run an image once in place, on inputs of zeros, and count the hits and misses of the cache.

    Every instruction and every load from flash goes through the cache. IMAGE may be a flash image that holds
    one.
    """
    from aisrv.addons.kernels.relocatable.fetches import count_fetches

    image, weights = _open(image_file, engine)
    if weights:
        file = bytearray(bytes(image.data) + weights)
        merge(file, len(image.data))
        image = Image.from_bytes(file)
    counters = count_fetches(image, CacheGeometry(cache, ways, line))
    text = f"{image_file}: {counters}"
    settings.answer(asdict(counters), lambda: click.echo(text))


def _open(path: Path, engine: int) -> tuple[Image, bytes]:
    """Open an image in a file, or a flash image's for an engine; return it and its separate weights."""
    data = map_file(path)
    try:
        if is_image(data):
            return Image.from_bytes(bytes(data)), b""
        return _stored_image(path, engine)
    except ImageError as error:
        raise ImageError(f"{path}: {error}") from error


def _stored_image(path: Path, engine: int) -> tuple[Image, bytes]:
    try:
        flash = FlashImage.open(path)
    except LayoutError:
        raise ImageError("neither an image, which begins with NBIN, nor a flash image") from None
    if engine >= len(flash.map.parts):
        last = len(flash.map.parts) - 1
        raise ImageError(f"unknown engine {engine}: the flash image ends with engine {last}")
    segments = {
        part: b"".join(flash.normal(engine, part))
        for part in {*IMAGE_PARTS, *WEIGHTS_PARTS}
        if flash.stored(engine, part)
    }
    parts = [part for part in IMAGE_PARTS if part in segments]
    if not parts:
        raise ImageError(f"there is no relocatable image for engine {engine}")
    part = next((each for each in parts if is_image(segments[each][StoredHeader.SIZE :])), parts[0])
    image = Image.from_bytes(bytes(restored(segments[part])))
    for each in WEIGHTS_PARTS:
        if each is not part and each in segments and image.missing_weights:
            weights = segments[each]
            if (
                len(weights) >= StoredHeader.SIZE
                and StoredHeader.unpack_from(weights).length == image.missing_weights
            ):
                return image, bytes(checked(weights))
    return image, b""
