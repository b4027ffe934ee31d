"""Packages that kinds of engines need, and that are not installed with this one."""

from importlib.util import find_spec
from typing import Final

from aisrv.inference.interpreter import MissingPackageError
from aisrv.protocol.engine_kind import EngineKind
from aisrv.protocol.kind_variant import Package

_LITERT: Final = Package("ai_edge_litert", "ai-edge-litert", "litert")

PACKAGES: Final = {
    "tflite": (_LITERT, Package("tflite_runtime", "tflite-runtime", "litert")),
    "litert": (_LITERT,),
    "tflm": (Package("tflite_micro", "tflite-micro", "tflm"),),
    "xcore": (Package("xmos_ai_tools", "xmos-ai-tools", "xcore"),),
}
"""Packages of which a kind of the core needs one, the first to be named."""


def packages_of(kind: EngineKind) -> tuple[Package, ...]:
    """Return the packages of which a kind needs one, the first to be named; none where it needs none."""
    return PACKAGES.get(kind.name) or kind.variant.packages


def missing_package(kind: EngineKind) -> MissingPackageError | None:
    """Return the error for a kind whose package is not installed, else None."""
    packages = packages_of(kind)
    if not packages or any(find_spec(package.module) for package in packages):
        return None
    return MissingPackageError(packages[0].name, packages[0].extra)
