"""The packager: images from files, and files from images.

Everything goes through the files piece by piece, so that a large image costs little more than copying it.
"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from aisrv.model.relocatable.container import WORD, is_image
from aisrv.model.relocatable.container import Image as RelocatableImage
from aisrv.model.relocatable.errors import ImageError
from aisrv.model.relocatable.stored import with_header
from flash_server.files import InputError, Progress, ignore, write_file
from flash_server.image import DataPartition, EngineImage, Part
from flash_server.image.headers import IMAGE_PARTS, WEIGHTS_PARTS
from flash_server.image.image_file import EngineFiles, Image, read_part
from flash_server.image.pack_options import PackOptions, describe


def partition_of(engines: Sequence[EngineFiles], options: PackOptions) -> DataPartition:
    """Return the data partition of the files; InputError names engine and part of one that cannot be read.

    A relocatable image among operators or execute-in-place data is checked, stored with its length and
    CRC-32, and makes all parts begin at multiples of 4; so are its weights if they are not in the image.
    """
    if not any(files[part] for files in engines for part in Part):
        raise InputError("nothing to pack: no engine has a file")
    missing = b"" if options.places_missing else None
    contents = [contents_of(number, files) for number, files in enumerate(engines)]
    images = tuple(EngineImage(*(found.get(part, missing) for part in Part)) for found in contents)
    has_images = any(isinstance(data, _Stored) for found in contents for data in found.values())
    alignment = math.lcm(options.alignment, WORD) if has_images else options.alignment
    return DataPartition(images, options.generation, options.swapped, alignment)


def check_models(engines: Sequence[EngineFiles]) -> None:
    """Raise InputError, which names engine and file, for a model's file that is no `.tflite` file."""
    from aisrv.model import ModelFileError
    from aisrv.model.reader import read_model

    for number, files in enumerate(engines):
        path = files[Part.MODEL]
        if path is None:
            continue
        try:
            read_model(read_part(number, Part.MODEL, path))
        except ModelFileError as error:
            raise InputError(f"engine {number}: {Part.MODEL.label}: {path}: {error}") from error


class _Stored(bytes):
    """A relocatable image, or its weights, with length and CRC-32."""


def contents_of(engine: int, files: EngineFiles) -> dict[Part, memoryview | bytes]:
    """Return the parts of an engine's files; InputError names the number `engine` and the part."""
    found: dict[Part, memoryview | bytes] = {
        part: read_part(engine, part, path) for part in Part if (path := files[part]) is not None
    }
    if is_image(found.get(Part.PARAMETERS, b"")):
        raise InputError(
            f"engine {engine}: parameters: {files.parameters}: a relocatable image, which is loaded as "
            "operators or xip alone"
        )
    parts = [part for part in IMAGE_PARTS if is_image(found.get(part, b""))]
    for part in parts:
        from aisrv.model.relocatable.model import check_loadable  # which other images do not need

        try:
            image = RelocatableImage.from_bytes(found[part])
            check_loadable(image)
            if part is parts[0] and image.missing_weights:
                weights = _weights_part(found, part, image.missing_weights)
                found[weights] = _Stored(with_header(found[weights]))
            found[part] = _Stored(with_header(found[part]))
        except ImageError as error:
            raise InputError(f"engine {engine}: {part.label}: {files[part]}: {error}") from error
    return found


def _weights_part(found: Mapping[Part, memoryview | bytes], code: Part, size: int) -> Part:
    """Return the part with the weights of an image without them. Raises ImageError."""
    for part in WEIGHTS_PARTS:
        if part is not code and len(found.get(part, b"")) == size:
            return part
    names = " or ".join(f"{part.label}=" for part in WEIGHTS_PARTS if part is not code)
    raise ImageError(
        f"the image's {size:,} bytes of weights are in a file of their own: "
        f"name it as {names} of the same engine"
    )


def pack(
    engines: Sequence[EngineFiles],
    output: Path,
    options: PackOptions | None = None,
    progress: Progress = ignore,
) -> DataPartition:
    """Write the image of the files. Raises LayoutError before anything is written.

    `progress` is called with the bytes done and all bytes.
    """
    options = options or PackOptions()
    partition = partition_of(engines, options)
    pieces = partition.chunks(options.size, fill=options.fill)
    total = options.size if options.fill and options.size else partition.image_size
    write_file(output, pieces, total, progress)
    return partition


def unpack(image: Image, directory: Path, *, trim: bool = False, progress: Progress = ignore) -> list[Path]:
    """Write each part to a file of its own, and `image.toml`, from which the same image can be packed.

    Parts other than models come with the padding behind them, since their sizes are not stored; with `trim`
    without the FF at their ends. Returns the files, the TOML file last. `directory` is created if missing;
    `progress` is called with the bytes done and all bytes. Raises InputError.
    """
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{directory}: {error.strerror}") from error
    written: list[Path] = []
    stored_parts = [parts[part] for parts in image.map.parts for part in Part]
    done, total = 0, sum(segment.size for segment in stored_parts if segment)
    names: list[EngineFiles] = []
    for engine in range(len(image.map.headers)):
        files: dict[str, Path] = {}
        for part in Part:
            stored = image.stored(engine, part)
            if stored is None:
                continue
            size = image.used(engine, part) if trim else len(stored)
            files[part.label] = Path(f"engine{engine}.{part.label}")
            written.append(directory / files[part.label])
            write_file(written[-1], image.normal(engine, part, size), size)
            done += len(stored)
            progress(done, total)
        names.append(EngineFiles(**files))
    written.append(directory / "image.toml")
    text = describe(names, _options(image)).encode()
    write_file(written[-1], [text], len(text))
    return written


def _options(image: Image) -> PackOptions:
    """Return the options that pack the parts of an image at the same addresses; alignment 1 if none does."""
    found, engines = image.map, range(len(image.map.headers))
    parts = tuple(EngineImage(*(image.stored(engine, part) for part in Part)) for engine in engines)
    generation, swapped = found.detected.generation, found.detected.swapped
    for alignment in (1 << power for power in range(25)):
        partition = DataPartition(parts, generation, swapped, alignment)
        if partition.headers() == found.headers:
            filled = partition.image_size < found.size
            return PackOptions(
                generation, swapped, found.size if filled else None, alignment, filled, placed=False
            )
    return PackOptions(generation, swapped, placed=False)
