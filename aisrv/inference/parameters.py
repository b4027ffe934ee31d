"""Parameters that a model of XMOS's converter keeps in flash: its loads in order.

`xcore-opt --xcore-weights-file` moves weights out of the model. In their place stand operators without
inputs, whose outputs the device's flash server fills at each run. Options of `XC_ld_weights`: `a` is the
address of the first byte, `s` the sizes of the outputs, which lie one after the other, `t` the kind of load;
older ones, and `XC_ld_flash` before them, call them `addr` and `sizes`. Source: "Inference engines", section
Bindings.
"""

import enum
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple, Protocol, Self

from msgspec import Struct

from aisrv.inference.errors import ModelError
from aisrv.model import Model, Operator
from aisrv.model.custom_options import CustomOptions

LOADS: Final = frozenset({"XC_ld_weights", "XC_ld_flash"})
FLASH_LOADS: Final = LOADS | {"XC_load_from_flash"}
MAX_EXTENT: Final = 0xFFFF * 1024
"""Bytes of the largest flash that the spec words can describe."""


class LoadKind(enum.IntEnum):
    """Source of a load's parameters, and whether the load waits for them."""

    FLASH = 0
    EXTERNAL_MEMORY = 1
    FLASH_MEANWHILE = 2
    """Flash, while other operators run."""


_REFUSED: Final = {
    LoadKind.EXTERNAL_MEMORY: "from external memory, where nothing puts them: convert the model without "
    "--xcore-weights-in-external-memory",
    LoadKind.FLASH_MEANWHILE: "while other operators run, which XMOS's library gets wrong on a host: convert "
    "the model without --xcore-async-load-weights",
}


class ParameterSource(Protocol):
    """The flash that holds the parameters."""

    async def read(self, offset: int, size: int) -> bytes:
        """Read `size` bytes of the parameters. Raises InvokeError."""


class ParameterLoad(Struct, frozen=True):
    """Load of one operator: `size` bytes of the parameters from `address`, for all its outputs."""

    operator: int
    address: int
    size: int


class ParameterTraffic(Struct, frozen=True):
    """The flash traffic of a run: the number of requests, and their bytes."""

    requests: int = 0
    nbytes: int = 0

    @classmethod
    def of(cls, loads: Sequence[ParameterLoad]) -> Self:
        """Sum up the loads of a run."""
        return cls(len(loads), sum(load.size for load in loads))


def parameter_loads(model: Model) -> tuple[ParameterLoad, ...]:
    """Find the loads of a model in the order in which its operators run. Raises ModelError."""
    return tuple(_load(model, operator) for operator in model.operators if operator.name in LOADS)


def parameter_bytes(loads: Iterable[ParameterLoad]) -> int:
    """Count the bytes of parameters up to the last one that is loaded; 0 if none is."""
    return max((load.address + load.size for load in loads), default=0)


async def read_parameters(
    loads: Iterable[ParameterLoad], source: ParameterSource, memory: memoryview
) -> None:
    """Serve the loads of a run, in their order: each byte goes to its own address in `memory`."""
    for load in loads:
        memory[load.address : load.address + load.size] = await source.read(load.address, load.size)


def _load(model: Model, operator: Operator) -> ParameterLoad:
    where = f"operator {operator.index} ({operator.name})"
    try:
        address, sizes, kind = read_options(operator.custom_options)
    except ValueError as error:
        raise ModelError(f"{where}: its options cannot be read: {error}") from error
    if kind in _REFUSED:
        raise ModelError(f"{where} loads its parameters {_REFUSED[LoadKind(kind)]}")
    if kind != LoadKind.FLASH:
        raise ModelError(f"{where} is a load of kind {kind}, which is not known")
    outputs = tuple(model.tensors[index].nbytes for index in operator.outputs)
    if sizes != outputs:
        raise ModelError(f"{where} loads {list(sizes)} bytes, its outputs have {list(outputs)}")
    if not sum(sizes):
        raise ModelError(f"{where} loads nothing")
    if address < 0 or address + sum(sizes) > MAX_EXTENT:
        raise ModelError(
            f"{where} loads {sum(sizes)} bytes from {address}: a flash has at most {MAX_EXTENT:,}"
        )
    return ParameterLoad(operator.index, address, sum(sizes))


class LoadOptions(NamedTuple):
    """The options of an operator that loads parameters."""

    address: int
    sizes: tuple[int, ...]
    kind: int


def read_options(data: bytes) -> LoadOptions:
    """Read the options of a load. Raises ValueError."""
    options = CustomOptions.from_bytes(data)
    address, sizes, kind = options.integer("a", "addr"), options.integers("s", "sizes"), options.integer("t")
    if address is None:
        raise ValueError("missing option: a or addr")
    if sizes is None:
        raise ValueError("missing option: s or sizes")
    return LoadOptions(address, sizes, LoadKind.FLASH if kind is None else kind)


def is_from_external_memory(operator: Operator) -> bool:
    """Check whether a load finds its parameters in external memory."""
    try:
        kind = CustomOptions.from_bytes(operator.custom_options).integer("t")
    except ValueError:
        return False
    return kind == LoadKind.EXTERNAL_MEMORY


def used_constants(model: Model) -> tuple[int, int]:
    """Return number and bytes of the parameters that an inference needs: the constants of operators."""
    used = {index for operator in model.operators for index in operator.inputs if index >= 0}
    sizes = [model.tensors[index].nbytes for index in used if model.tensors[index].is_constant]
    return len(sizes), sum(sizes)
