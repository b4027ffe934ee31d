"""Steps of the library, with arguments as `kernels.h` declares them, and kernels of several steps."""

import ctypes
import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from aisrv.addons.kernels import checks
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.native.library import HEADER, Variant, read_source
from aisrv.addons.kernels.backends.native.team import Team

CACHE_LINE: Final = 64
"""Bytes: loads of a whole register that cross a line take twice as long."""

_DECLARATIONS: Final = read_source(HEADER).decode()

_ENUM: Final = re.compile(r"^enum (\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_NUMBERED: Final = re.compile(r"^ +([A-Z]\w+),$", re.MULTILINE)
_STRUCTURE: Final = re.compile(r"^struct (\w+) \{\n(.*?)^\};", re.MULTILINE | re.DOTALL)
_FIELD: Final = re.compile(r"^ +(?:const )?(?:struct )?(\w+) (\*?)(\w+);", re.MULTILINE)

_NUMBERS: Final = {
    enum: {name: number for number, name in enumerate(_NUMBERED.findall(body))}
    for enum, body in _ENUM.findall(_DECLARATIONS)
}
KINDS: Final = _NUMBERS["step_kind"]
"""The number of each kind of step."""
VARIANTS: Final = {each: _NUMBERS["variant"][each.value.upper()] for each in Variant}
"""The number of each variant."""


def _structures(declarations: str) -> dict[str, type[ctypes.Structure]]:
    """The structures of a C header by name, of fields that are int64_t, float, pointers or structures."""
    found: dict[str, type[ctypes.Structure]] = {}
    types: dict[str, Any] = {"int64_t": ctypes.c_int64, "float": ctypes.c_float}
    for name, body in _STRUCTURE.findall(declarations):
        fields = [
            (field, ctypes.c_void_p if pointer else types[kind])
            for kind, pointer, field in _FIELD.findall(body)
        ]
        found[name] = types[name] = type(name, (ctypes.Structure,), {"_fields_": fields})
    return found


STRUCTURES: Final = _structures(_DECLARATIONS)


def structure(name: str, **values: object) -> ctypes.Structure:
    """Fill a structure of the header; arrays and buffers become their addresses, and the caller keeps them.

    TypeError where `values` are not its fields, one for each.
    """
    kind = STRUCTURES[name]
    fields = {field[0] for field in kind._fields_}
    if fields != values.keys():
        raise TypeError(f"struct {name}: {', '.join(sorted(fields ^ values.keys()))} missing or unknown")
    return kind(
        **{
            field: address(value) if isinstance(value, memoryview | np.ndarray) else value
            for field, value in values.items()
        }
    )


@dataclass(frozen=True, slots=True)
class Step:
    """One step with its arguments, and what these point to."""

    kind: str
    """Its name in KINDS."""
    arguments: ctypes.Structure
    keep_alive: tuple[object, ...]
    work: int = 0
    """Multiply-accumulates, or what takes as long."""
    items: int = 1
    """Parts that threads may share, as the kind's function counts them."""


def make_step(
    kind: str,
    name: str,
    work: int = 0,
    keep_alive: tuple[object, ...] = (),
    items: int = 1,
    **values: object,
) -> Step:
    """Make a step of a kind, with the structure of a name filled as `structure` does."""
    return Step(kind, structure(name, **values), (*keep_alive, *values.values()), work, items)


class NativeKernel(functools.partial[None]):
    """Steps that run in one call.

    It is the prepared call of the library itself: a network of microseconds notices each layer around it.
    """

    team: Team
    steps: tuple[Step, ...]

    def __new__(cls, team: Team, steps: Sequence[Step]) -> Self:
        """Join steps."""
        structure = STRUCTURES["step"]
        pieces = [team.pieces(step.work, step.items) for step in steps]
        array = (structure * len(steps))(
            *(
                structure(VARIANTS[team.variant], KINDS[step.kind], ctypes.addressof(step.arguments), count)
                for step, count in zip(steps, pieces, strict=True)
            )
        )
        # Values of ctypes need no conversion at each call.
        kernel = super().__new__(
            cls, *team.call(shared=max(pieces) > 1), ctypes.byref(array), ctypes.c_int64(len(steps))
        )
        kernel.team, kernel.steps = team, tuple(steps)
        return kernel

    def followed_by(self, kernel: Kernel) -> "NativeKernel | None":
        """Return both kernels as one; None for a kernel that is not of this library and team."""
        if isinstance(kernel, NativeKernel) and kernel.team is self.team:
            return NativeKernel(self.team, (*self.steps, *kernel.steps))
        return None


def address(data: "memoryview | npt.NDArray[np.generic]") -> int:
    """Address of a buffer or an array."""
    if isinstance(data, memoryview):
        return checks.address(data)
    return int(data.__array_interface__["data"][0])


def aligned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Copy an array to memory that starts at a cache line."""
    memory = np.empty(array.nbytes + CACHE_LINE, np.int8)
    start = -address(memory) % CACHE_LINE
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy
