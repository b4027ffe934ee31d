"""How files become an image: what the options of `aisrv-flash pack` and its configuration files say."""

from dataclasses import dataclass

from flash_server.image import Generation


@dataclass(frozen=True, slots=True)
class PackOptions:
    """How files become an image; None stands for what is usual in the generation.

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
        """`placed`, or what is usual."""
        return self.generation is Generation.FAST if self.placed is None else self.placed
