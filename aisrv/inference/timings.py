"""Timing model of the device: how long each operator of a model would take on the chip.

No interpreter on a host can tell, so the times are computed from shapes, by formulas that were fitted to
published runs of XMOS's kernels. Source of figures and formulas: "Inference engines", section Timings. They
assume that the published runs were made at 600 MHz. An operator without a published figure gets an estimate,
which says so.
"""

import enum
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from aisrv.protocol import TICKS_PER_SECOND
from aisrv.tflite_model import Model, Operator, Tensor

FITTED_CLOCK_MHZ: Final = 600
"""Core clock that the formulas hold for."""
MAX_THREADS: Final = 8
"""Logical cores of a tile."""
_WORD: Final = 0xFFFF_FFFF


class Basis(enum.Enum):
    """What a figure rests on."""

    FITTED = "fitted"
    """A formula that reproduces published figures of this operator."""
    ESTIMATE = "estimate"
    """A guess from the size of the tensors, or from another operator's figures."""


@dataclass(frozen=True, slots=True)
class OperatorTime:
    """Time of one operator in ticks of 10 ns; `index` is its place in execution order."""

    index: int
    name: str
    ticks: int
    basis: Basis


@dataclass(frozen=True, slots=True)
class DeviceModel:
    """What of the device decides on time: core clock, threads of an inference, flash rate in bytes a second.

    12.5 MB/s is quad flash at 25 MHz; fast flash at 100 MHz has 50 MB/s. ValueError for what no device has.
    """

    clock_mhz: float = FITTED_CLOCK_MHZ
    threads: int = 1
    flash_rate: float = 12_500_000

    def __post_init__(self) -> None:
        if not (self.clock_mhz > 0 and math.isfinite(self.clock_mhz)):
            raise ValueError(f"a clock of {self.clock_mhz} MHz: it must be above 0")
        if not 1 <= self.threads <= MAX_THREADS:
            raise ValueError(f"{self.threads} threads: a tile has 1 to {MAX_THREADS}")
        if not self.flash_rate > 0:
            raise ValueError(f"a flash rate of {self.flash_rate} bytes a second: it must be above 0")

    def estimate(self, model: Model) -> tuple[OperatorTime, ...]:
        """Tell the time of each operator of the main subgraph, in execution order."""
        return tuple(self._time(_Node.of(model, operator)) for operator in model.operators)

    def _time(self, node: "_Node") -> OperatorTime:
        operator = node.operator
        if operator.name in _FLASH_LOADS:  # the flash sets the pace, whatever the core clock
            ticks = sum(tensor.nbytes for tensor in node.outputs) * TICKS_PER_SECOND / self.flash_rate
            return OperatorTime(operator.index, operator.name, round(ticks), Basis.FITTED)
        rule = _RULES.get(operator.name, _UNKNOWN)
        cost = rule.cost(node)
        if cost is None:  # shapes that the formula has no meaning for
            rule, cost = _UNKNOWN, _moving_bytes(node)
        if rule.is_threaded:
            cost = cost / self.threads + _THREAD_OVERHEAD * (self.threads - 1)
        ticks = cost * FITTED_CLOCK_MHZ / self.clock_mhz
        return OperatorTime(operator.index, operator.name, round(ticks), rule.basis)


def to_words(times: Sequence[OperatorTime]) -> tuple[int, ...]:
    """Give the words of GET_TIMINGS: ticks, wrapped at 32 bits."""
    return tuple(time.ticks & _WORD for time in times)


class _Node(NamedTuple):
    """An operator with the tensors that it computes with, left-out inputs as None."""

    operator: Operator
    inputs: tuple[Tensor | None, ...]
    outputs: tuple[Tensor, ...]

    @classmethod
    def of(cls, model: Model, operator: Operator) -> "_Node":
        return cls(
            operator,
            tuple(model.tensors[index] if index >= 0 else None for index in operator.inputs),
            tuple(model.tensors[index] for index in operator.outputs),
        )

    @property
    def output(self) -> Tensor | None:
        return self.outputs[0] if self.outputs else None

    def input(self, position: int) -> Tensor | None:
        return self.inputs[position] if position < len(self.inputs) else None


_THREAD_OVERHEAD: Final = 4255 / 4
"""Ticks that each further thread adds to a convolution."""
_CHANNEL_GROUP: Final = 16
"""Output channels that the vector unit computes at once."""
_FIXED: Final = 350
"""Ticks of an operator apart from its data, as fitted for padding."""
_PER_BYTE: Final = 0.25
"""Ticks to move a byte, as fitted for padding."""


def _pixel_groups(pixels: int, channels: int) -> int:
    return pixels * math.ceil(channels / _CHANNEL_GROUP)


def _multiply_accumulate(pixel_groups: int, taps: int, channels: int) -> float:
    """A convolution: 32 int8 products at once, of input channels padded to a multiple of 4."""
    products = taps * 4 * math.ceil(channels / 4)
    return pixel_groups * (143.5 + 12.06 * math.ceil(products / 32))


def _per_channel(pixel_groups: int, taps: int) -> float:
    """A depthwise convolution: each channel has a window of its own."""
    return pixel_groups * 193 * (0.4 + 0.6 * taps / 9)


def _conv_2d(node: _Node) -> float | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 4 or len(output.shape) != 4:
        return None
    _, kernel_h, kernel_w, channels = weights.shape
    groups = _pixel_groups(math.prod(output.shape[:3]), output.shape[3])
    return _multiply_accumulate(groups, kernel_h * kernel_w, channels)


def _depthwise_conv_2d(node: _Node) -> float | None:
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 4 or len(output.shape) != 4:
        return None
    _, kernel_h, kernel_w, _ = weights.shape
    return _per_channel(_pixel_groups(math.prod(output.shape[:3]), output.shape[3]), kernel_h * kernel_w)


def _xc_conv2d(node: _Node) -> float | None:
    """Cost of XMOS's convolution: its kernel has no shape of its own, the bytes of its weights tell."""
    data, weights, output = node.input(0), node.input(1), node.output
    if data is None or weights is None or output is None or len(data.shape) != 4 or len(output.shape) != 4:
        return None
    channels = output.shape[3]
    products = math.ceil(weights.nbytes / max(_CHANNEL_GROUP * math.ceil(channels / _CHANNEL_GROUP), 1))
    groups = _pixel_groups(math.prod(output.shape[:3]), channels)
    if products < data.shape[3]:  # less than a product for each input channel: depthwise
        return _per_channel(groups, products)
    return _multiply_accumulate(groups, 1, products)


def _fully_connected(node: _Node) -> float | None:
    """Cost of a 1x1 convolution that has a pixel for each row of the batch, and a fixed cost."""
    weights, output = node.input(1), node.output
    if weights is None or output is None or len(weights.shape) != 2 or not weights.shape[0]:
        return None
    rows = math.prod(output.shape) // weights.shape[0]
    return _multiply_accumulate(_pixel_groups(rows, weights.shape[0]), 1, weights.shape[1]) + _FIXED


def _pool(node: _Node) -> float | None:
    """Cost of a depthwise convolution with the same window."""
    if node.output is None or len(node.output.shape) != 4:
        return None
    options = node.operator.options
    groups = _pixel_groups(math.prod(node.output.shape[:3]), node.output.shape[3])
    return _per_channel(groups, options.kernel_w * options.kernel_h)


def _pad(node: _Node) -> float | None:
    return None if node.output is None else _FIXED + _PER_BYTE * node.output.nbytes


def _pad_3_to_4(node: _Node) -> float | None:
    """26,993 ticks were published for 96x96 pixels."""
    return None if node.output is None else 26_993 / (96 * 96) * (node.output.nbytes / 4)


def _softmax(node: _Node) -> float | None:
    return None if node.output is None else 1000 + 330 * math.prod(node.output.shape)


def _reshape(_node: _Node) -> float:
    return 130


def _strided_slice(node: _Node) -> float | None:
    """110 ticks were published for a slice of a few bytes; further bytes cost what they do in a pad."""
    return None if node.output is None else 110 + _PER_BYTE * node.output.nbytes


def _moving_bytes(node: _Node) -> float:
    """Cost of reading and writing the activations at the rate of a pad."""
    read = sum(tensor.nbytes for tensor in node.inputs if tensor is not None and not tensor.is_constant)
    return _FIXED + _PER_BYTE * (read + sum(tensor.nbytes for tensor in node.outputs))


class _Rule(NamedTuple):
    """Ticks at 600 MHz on one thread (None: not these shapes), and whether more threads share the work."""

    cost: Callable[[_Node], float | None]
    basis: Basis
    is_threaded: bool = False


_UNKNOWN: Final = _Rule(_moving_bytes, Basis.ESTIMATE)

_RULES: Final = {
    "CONV_2D": _Rule(_conv_2d, Basis.FITTED, is_threaded=True),
    "DEPTHWISE_CONV_2D": _Rule(_depthwise_conv_2d, Basis.FITTED, is_threaded=True),
    "FULLY_CONNECTED": _Rule(_fully_connected, Basis.FITTED),
    "PAD": _Rule(_pad, Basis.FITTED),
    "SOFTMAX": _Rule(_softmax, Basis.FITTED),
    "RESHAPE": _Rule(_reshape, Basis.FITTED),
    "SQUEEZE": _Rule(_reshape, Basis.ESTIMATE),
    "EXPAND_DIMS": _Rule(_reshape, Basis.ESTIMATE),
    "STRIDED_SLICE": _Rule(_strided_slice, Basis.ESTIMATE),
    "AVERAGE_POOL_2D": _Rule(_pool, Basis.ESTIMATE),
    "MAX_POOL_2D": _Rule(_pool, Basis.ESTIMATE),
    # What XMOS's converter makes of the above.
    "XC_conv2d_v2": _Rule(_xc_conv2d, Basis.ESTIMATE, is_threaded=True),
    "XC_pad": _Rule(_pad, Basis.FITTED),
    "XC_pad_v2": _Rule(_pad, Basis.FITTED),
    "XC_pad_3_to_4": _Rule(_pad_3_to_4, Basis.FITTED),
    "XC_softmax": _Rule(_softmax, Basis.FITTED),
    "XC_strided_slice": _Rule(_strided_slice, Basis.ESTIMATE),
}

_FLASH_LOADS: Final = frozenset({"XC_ld_weights", "XC_ld_flash", "XC_load_from_flash"})
"""Operators that copy parameters from flash."""


def profiler_summary(times: Sequence[OperatorTime]) -> str:
    """Tell each operator's time, the total, and the share of each operator class, largest first.

    Times are in ticks of 10 ns and in ms; an estimated time, or a class with one, is marked.
    """
    total = sum(time.ticks for time in times)
    lines = ["Operators"]
    lines += [f"{time.index:5}  {_columns(time.name, time.ticks)}{_mark(time)}" for time in times]
    lines += [f"{'Total':5}  {_columns('', total)}", "", "By operator class"]

    classes: dict[str, list[OperatorTime]] = {}
    for time in times:
        classes.setdefault(time.name, []).append(time)
    sums = {name: sum(time.ticks for time in members) for name, members in classes.items()}
    for name in sorted(sums, key=lambda name: -sums[name]):
        members = classes[name]
        share = 100 * sums[name] / total if total else 0.0
        lines.append(f"{len(members):5}  {_columns(name, sums[name])} {share:6.2f} %{_mark(*members)}")
    return "\n".join(lines) + "\n"


def _columns(name: str, ticks: int) -> str:
    return f"{name:28} {ticks:12} {1000 * ticks / TICKS_PER_SECOND:10.3f} ms"


def _mark(*times: OperatorTime) -> str:
    return "  estimate" if any(time.basis is Basis.ESTIMATE for time in times) else ""
