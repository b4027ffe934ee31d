"""Packages that kinds of engines need, and that are not installed with this one."""

from importlib.util import find_spec
from typing import Final, NamedTuple

from aisrv.addons.kernels.backends.registry import plain_name
from aisrv.inference.interpreter import MissingPackageError
from aisrv.protocol.engine_kind import KERNELS, EngineKind


class Package(NamedTuple):
    """A package by the module that is imported, by its own name, and by the extra that brings it."""

    module: str
    name: str
    extra: str


_LITERT: Final = Package("ai_edge_litert", "ai-edge-litert", "litert")
_UNICORN: Final = Package("unicorn", "unicorn", "relocatable")

PACKAGES: Final = {
    "tflite": (_LITERT, Package("tflite_runtime", "tflite-runtime", "litert")),
    "litert": (_LITERT,),
    "tflm": (Package("tflite_micro", "tflite-micro", "tflm"),),
    "xcore": (Package("xmos_ai_tools", "xmos-ai-tools", "xcore"),),
    "relocatable": (_UNICORN,),
    "kernels:relocatable": (_UNICORN,),
}
"""Packages of which a kind needs one, the first to be named; the others need none."""


def missing_package(kind: EngineKind) -> MissingPackageError | None:
    """Return the error for a kind whose package is not installed, else None."""
    name = kind.name
    if name == KERNELS and kind.backend is not None:
        name = f"{KERNELS}:{plain_name(kind.backend)}"
    packages = PACKAGES.get(name, ())
    if not packages or any(find_spec(package.module) for package in packages):
        return None
    return MissingPackageError(packages[0].name, packages[0].extra)
