"""Variants of the engine of relocatable code, as users write them.

relocatable                   on a Cortex-M4 and in place
relocatable:CORE              on another core, such as cortex-m7
relocatable:CORE:copy         and copied to RAM; CORE may be empty
relocatable:CORE:counted      in place, and what each run fetches from flash goes to the debug log
"""

from dataclasses import dataclass
from typing import Final, Self

from aisrv.addons.kernels.variant import UNICORN
from aisrv.protocol.engine_kind import EngineKindError
from aisrv.protocol.kind_variant import Package, Variant

INSTALL_MODES: Final = ("xip", "copy", "counted")
"""How an image is installed: in place, copied, or in place with each fetch from flash counted."""


@dataclass(frozen=True, slots=True)
class RelocatableVariant(Variant):
    """A core, and how it has the image; EngineKindError for what is neither."""

    core: str | None = None
    """Core by name; None is the default one."""
    mode: str | None = None
    """One of INSTALL_MODES; None is "xip"."""

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.mode is not None and self.mode not in INSTALL_MODES:
            raise EngineKindError(
                f"an image is installed as one of {', '.join(INSTALL_MODES)}; not as {self.mode!r}"
            )
        if self.core is not None and (not self.core or ":" in self.core):
            raise EngineKindError(f"{self.core!r} is not the name of a core")

    @classmethod
    def parse(cls, text: str) -> Self:
        core, _, mode = text.partition(":")
        return cls(core or None, mode or None)

    def __str__(self) -> str:
        return self.core or "" if self.mode is None else f"{self.core or ''}:{self.mode}"

    @property
    def runs_in_place(self) -> bool:
        return self.mode != "copy"

    @property
    def packages(self) -> tuple[Package, ...]:
        return (UNICORN,)
