"""Variants of the engine of our own kernels, as users write them.

kernels                       on the default backend
kernels:BACKEND               on a backend by its name
kernels:BACKEND:FOLDER        and every tensor of each run is written into a folder; BACKEND may be empty
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Self

from aisrv.addons.kernels.backends.registry import (
    NATIVE,
    SHIPPED,
    THREADS,
    backend_names,
    default_backend,
    plain_name,
    registered_backends,
)
from aisrv.protocol.engine_kind import EngineKindError
from aisrv.protocol.kind_variant import Package, Variant

UNICORN: Final = Package("unicorn", "unicorn", "relocatable")
"""What executes the code of the backend `relocatable`."""


@dataclass(frozen=True, slots=True)
class KernelsVariant(Variant):
    """A backend, and what becomes of tensors; EngineKindError for what is no name."""

    backend: str | None = None
    """Backend by name; None is the default one."""
    tensor_folder: Path | None = None
    """Folder that every tensor of each run is written into."""

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.backend is not None and (not self.backend or ":" in self.backend):
            raise EngineKindError(f"{self.backend!r} is not the name of a backend")

    @classmethod
    def parse(cls, text: str) -> Self:
        backend, _, folder = text.partition(":")
        return cls(backend or None, Path(folder) if folder else None)

    def __str__(self) -> str:
        if self.tensor_folder is not None:
            return f"{self.backend or ''}:{self.tensor_folder}"
        return self.backend or ""

    @property
    def is_shipped(self) -> bool:
        return self.backend is None or plain_name(self.backend) in SHIPPED

    @property
    def written_folder(self) -> Path | None:
        return self.tensor_folder

    @property
    def packages(self) -> tuple[Package, ...]:
        return (UNICORN,) if self.backend is not None and plain_name(self.backend) == "relocatable" else ()

    def refusal(self) -> str:
        if self.backend is None:
            return ""
        backend = plain_name(self.backend)
        if backend in SHIPPED or backend in backend_names():
            return ""
        return f"there is no kernel backend {backend!r}; there are: {', '.join(backend_names())}"

    def implementation(self) -> str | None:
        """Name the default backend, or the variant of native kernels that this processor runs."""
        if self.backend is None:
            return f"on {default_backend()}"
        if plain_name(self.backend) != NATIVE:
            return None
        from aisrv.addons.kernels.backends.native.library import NativeError, load

        try:
            return load().variants[-1].value
        except NativeError as error:
            raise EngineKindError(str(error)) from None

    def on_threads(self, count: int) -> Self | None:
        if self.backend not in (None, NATIVE):
            return None
        return replace(self, backend=f"{NATIVE}{THREADS}{count}")

    def writing(self, folder: Path) -> Self | None:
        return replace(self, tensor_folder=folder)

    @classmethod
    def names(cls) -> Mapping[str, str]:
        return dict.fromkeys(SHIPPED, "aisrv") | registered_backends()
