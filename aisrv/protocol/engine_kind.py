"""Kind of an engine's interpreter, and its variant, as a value.

Users write it as text, on the command line and in board files, and so does a device on the command line of a
worker process:

    tflite                        a kind by its name
    kernels:numpy                 a variant of a kind, whose text the kind's own class reads
    module:class                  a class of the user's own

The kinds of the core are here. Add-ons bring the others (`aisrv.values.addons.Kind`).
"""

from dataclasses import dataclass, fields, replace
from functools import cache
from importlib.util import find_spec
from typing import Any, Final, Self

from aisrv.protocol.kind_variant import Variant
from aisrv.values.addons import Kind, load, offer, offered, offered_by_all

RELOCATABLE: Final = "relocatable"
"""The kind that executes relocatable images of models."""
NO_MODEL: Final = "none"
"""The kind that runs no model."""
DEFAULT: Final = "tflite"
"""The default where no kind that may be the default is there."""

_CORE: Final = {
    "tflite": Kind("aisrv.inference.interpreters.tflite:TfliteInterpreter", rank=0, module="tflite_runtime"),
    "litert": Kind("aisrv.inference.interpreters.tflite:LitertInterpreter", rank=1, module="ai_edge_litert"),
    "tflm": Kind("aisrv.inference.interpreters.tflm:TflmInterpreter"),
    "xcore": Kind("aisrv.inference.interpreters.xcore:XcoreInterpreter"),
}
KINDS: Final[dict[str, Kind]] = {**_CORE, **offered("engine_kinds"), NO_MODEL: Kind("")}
"""The product's kinds by name, in the order of lists; other packages may bring more."""
ENGINE_KINDS: Final = tuple(KINDS)
RANKED: Final = tuple(
    name for _, name in sorted((kind.rank, name) for name, kind in KINDS.items() if kind.rank is not None)
)
"""Kinds that may be the default, the best first."""


class EngineKindError(ValueError):
    """A kind of engine that there is not, or options that it does not take."""


def find_kind(name: str) -> Kind | None:
    """Return the kind of a name, that of another package too; None for a class of the user's own."""
    found: Kind | None = KINDS.get(name) or offer("engine_kinds", name)
    return found


def kind_names() -> tuple[str, ...]:
    """Return the names of all kinds, those of other packages at the end."""
    return tuple(dict.fromkeys((*ENGINE_KINDS, *offered_by_all("engine_kinds"))))


@dataclass(frozen=True, slots=True, init=False)
class EngineKind:
    """A kind of interpreter with its options."""

    name: str
    """One of `kind_names`, or "module:class"."""
    variant_text: str
    """Text behind the name and a colon, as the kind's variant writes it; empty for the plain kind."""

    def __init__(self, name: str, variant_text: str = "", **options: object) -> None:
        """Take a text, or options by name. Raises EngineKindError where they do not go together."""
        kind = find_kind(name)
        if kind is None:
            _check_class(name)
        if variant_text or any(value is not None for value in options.values()):
            variant_text = str(_variant(name, kind, variant_text, options))
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "variant_text", variant_text)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read the text form."""
        name, colon, variant = text.partition(":")
        kind = find_kind(name)
        if kind is None or (colon and not kind.variant):
            return cls(text)
        return cls(name, variant)

    @property
    def variant(self) -> Variant:
        """The variant of the kind. Reading it may import a module of an add-on, which runs nothing."""
        kind = find_kind(self.name)
        return _variant_class(kind).parse(self.variant_text)

    @property
    def options(self) -> dict[str, Any]:
        """The options that are given, by name."""
        return self.variant.arguments

    def with_variant(self, variant: Variant) -> Self:
        """Return the kind with another variant."""
        return type(self)(self.name, str(variant))

    def __str__(self) -> str:
        """Return the text form."""
        return f"{self.name}:{self.variant_text}" if self.variant_text else self.name


def _check_class(name: str) -> None:
    module, _, class_name = name.partition(":")
    if find_kind(module) is not None:
        raise EngineKindError(f"{name!r}: {module} takes no options")
    if not module or not class_name or ":" in class_name:
        raise EngineKindError(f'no kind {name!r}, there are {", ".join(kind_names())} and "module:class"')


def _variant_class(kind: Kind | None) -> type[Variant]:
    found: type[Variant] = load(kind.variant) if kind is not None and kind.variant else Variant
    return found


def _variant(name: str, kind: Kind | None, text: str, options: dict[str, Any]) -> Variant:
    variant_class = _variant_class(kind)
    if variant_class is Variant:
        raise EngineKindError(f"{name!r} takes no options")
    unknown = options.keys() - {field.name for field in fields(variant_class)}
    if unknown:
        raise EngineKindError(f"{name!r} does not take these options: {', '.join(sorted(unknown))}")
    return replace(variant_class.parse(text), **options)


def candidates() -> tuple[str, ...]:
    """Return the kinds that may be the default and that are there, the best first."""
    modules = {name: KINDS[name].module for name in RANKED}
    return tuple(name for name, module in modules.items() if not module or find_spec(module))


@cache
def default_kind() -> EngineKind:
    """Return what runs models where nobody names a kind: the first of `candidates`, or else `tflite`.

    Of the product's these are `tflite`, `litert` and `kernels`, which needs no other package.
    """
    return EngineKind(next(iter(candidates()), DEFAULT))
