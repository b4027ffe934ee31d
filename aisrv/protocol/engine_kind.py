"""Kind of an engine's interpreter, apart from its options, as a value.

Users write it as text, on the command line and in board files, and so does a device on the command line of a
worker process:

    tflite                        a kind by its name
    kernels                       our own kernels, on the default backend
    kernels:BACKEND               on a backend by its name
    kernels:BACKEND:FOLDER        and every tensor of each run is written into a folder; BACKEND may be empty
    relocatable                   relocatable code, on a Cortex-M4 and in place
    relocatable:CORE              on another core, such as cortex-m7
    relocatable:CORE:copy         and copied to RAM; CORE may be empty
    relocatable:CORE:counted      in place, and what each run fetches from flash goes to the debug log
    module:class                  a class of the user's own
"""

from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Self

KERNELS: Final = "kernels"
"""The kind of our own kernels."""
RELOCATABLE: Final = "relocatable"
"""The kind that executes relocatable images of models."""
NO_MODEL: Final = "none"
"""The kind that runs no model."""
ENGINE_KINDS: Final = ("tflite", "litert", "tflm", "xcore", KERNELS, RELOCATABLE, NO_MODEL)
"""Kinds by name; others are "module:class"."""


INSTALL_MODES: Final = ("xip", "copy", "counted")
"""How `relocatable` installs an image: in place, copied, or in place with each fetch from flash counted."""


class EngineKindError(ValueError):
    """A kind of engine that there is not, or options that it does not take."""


@dataclass(frozen=True, slots=True)
class EngineKind:
    """A kind of interpreter, and its options; EngineKindError where they do not go together."""

    name: str
    """One of ENGINE_KINDS, or "module:class"."""
    backend: str | None = None
    """Backend of `kernels` by name; None is the default one."""
    tensor_folder: Path | None = None
    """Folder that `kernels` writes every tensor of each run into."""
    core: str | None = None
    """Core of `relocatable` by name; None is the default one."""
    mode: str | None = None
    """Installation of images by `relocatable`, one of INSTALL_MODES; None is "xip"."""

    def __post_init__(self) -> None:
        """Check the fields."""
        if self.name not in ENGINE_KINDS:
            module, _, class_name = self.name.partition(":")
            if module in ENGINE_KINDS:
                raise EngineKindError(f"{self.name!r}: {module} takes no options")
            if not module or not class_name or ":" in class_name:
                raise EngineKindError(
                    f'no kind {self.name!r}, there are {", ".join(ENGINE_KINDS)} and "module:class"'
                )
        if self.mode is not None and self.mode not in INSTALL_MODES:
            raise EngineKindError(
                f"an image is installed as one of {', '.join(INSTALL_MODES)}; not as {self.mode!r}"
            )
        if self.name != RELOCATABLE and (self.core or self.mode):
            raise EngineKindError(f"{self.name!r} has no core and no mode: only {RELOCATABLE} does")
        if self.core is not None and (not self.core or ":" in self.core):
            raise EngineKindError(f"{self.core!r} is not the name of a core")
        if self.name != KERNELS and (self.backend is not None or self.tensor_folder is not None):
            raise EngineKindError(f"{self.name!r} has no backend and writes no tensors: only {KERNELS} does")
        if self.backend is not None and (not self.backend or ":" in self.backend):
            raise EngineKindError(f"{self.backend!r} is not the name of a backend")

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form."""
        name, _, options = text.partition(":")
        if name == RELOCATABLE:
            core, _, mode = options.partition(":")
            return cls(RELOCATABLE, core=core or None, mode=mode or None)
        if name != KERNELS:
            return cls(text)
        backend, _, folder = options.partition(":")
        return cls(KERNELS, backend or None, Path(folder) if folder else None)

    @property
    def options(self) -> dict[str, str | Path]:
        """The options that are given, by name."""
        options = {
            "backend": self.backend,
            "tensor_folder": self.tensor_folder,
            "core": self.core,
            "mode": self.mode,
        }
        return {name: value for name, value in options.items() if value is not None}

    def __str__(self) -> str:
        """Return the text form."""
        if self.mode is not None:
            return f"{self.name}:{self.core or ''}:{self.mode}"
        if self.core is not None:
            return f"{self.name}:{self.core}"
        if self.tensor_folder is not None:
            return f"{self.name}:{self.backend or ''}:{self.tensor_folder}"
        return self.name if self.backend is None else f"{self.name}:{self.backend}"


PACKAGES: Final = {"tflite": "tflite_runtime", "litert": "ai_edge_litert"}
"""Kinds that may be the default, the best first, with the package that each runs on."""


@cache
def default_kind() -> EngineKind:
    """Return what runs models where nobody names a kind: `tflite`, else `litert`, else `kernels`.

    The first whose package is installed; `kernels` needs none.
    """
    return EngineKind(next((kind for kind, package in PACKAGES.items() if find_spec(package)), KERNELS))
