"""Options of packing, and the contents of a packing file."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from flash_server.image import Generation, Part
from flash_server.image.image_file import EngineFiles
from flash_server.image.nibbles import order_name

GENERATIONS: Final = {generation.value: generation for generation in Generation}
MISSING: Final = {"placed": True, "zero": False}


@dataclass(frozen=True, slots=True)
class PackOptions:
    """Conversion of files to an image; None is what is usual in the generation.

    `size` is that of the data partition in bytes. `placed` gives missing parts an offset with nothing behind
    it instead of offset 0, as the packer of the fast generation does.
    """

    generation: Generation = Generation.FAST
    swapped: bool | None = None
    size: int | None = None
    alignment: int = 1
    fill: bool = False
    placed: bool | None = None

    @property
    def places_missing(self) -> bool:
        """Value of `placed`, or the usual one."""
        return self.generation is Generation.FAST if self.placed is None else self.placed


@dataclass(frozen=True, slots=True)
class PackConfig:
    """A packing file: the files of each engine, and the fields of `PackOptions` that it gives."""

    engines: tuple[EngineFiles, ...]
    settings: Mapping[str, object]


def describe(engines: Sequence[EngineFiles], options: PackOptions) -> str:
    """Return the text of an equal packing file."""
    swapped = options.generation.usually_swapped if options.swapped is None else options.swapped
    lines = [
        f'generation = "{options.generation.value}"',
        f'nibbles = "{order_name(swapped=swapped)}"',
        f"align = {options.alignment}",
        f'missing = "{"placed" if options.places_missing else "zero"}"',
    ]
    if options.size is not None:
        lines += [f"size = {options.size}", f"fill = {str(options.fill).lower()}"]
    for engine in engines:
        lines += ["", "[[engine]]"]
        # JSON's strings are TOML's, too.
        lines += [f"{part.label} = {_quoted(str(engine[part]))}" for part in Part if engine[part] is not None]
    return "\n".join(lines) + "\n"


def _quoted(text: str) -> str:
    import json

    return json.dumps(text, ensure_ascii=False)
