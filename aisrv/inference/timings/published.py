"""Published times of whole networks, and a way to recognize them.

A network is told by its convolutions with more than one pixel: their kind, and the size of their outputs. A
new measured network is a row here, and a test.
"""

from collections.abc import Iterator
from typing import Final

from msgspec import Struct

from aisrv.inference.parameters import FLASH_LOADS
from aisrv.inference.timings.converted import convolution_of
from aisrv.inference.timings.device_model import DeviceModel, Kernels
from aisrv.inference.timings.generation import FileGeneration, Generation
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.model import Model
from aisrv.protocol.memories import FlashPath, Memory

Layer = tuple[bool, int, int, int]
"""Whether a convolution is depthwise, and height, width and channels of its output."""


def _mobilenet_v1(side: int) -> tuple[Layer, ...]:
    """Return the convolutions of MobileNet v1 0.25 on images of a side."""
    layers = [(False, side // 2, side // 2, 8)]
    at, channels = side // 2, 8
    strides = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)
    outputs = (16, 32, 32, 64, 64, 128, 128, 128, 128, 128, 128, 256, 256)
    for stride, output in zip(strides, outputs, strict=True):
        at //= stride
        layers += [(True, at, at, channels), (False, at, at, output)]
        channels = output
    return tuple(layers)


class Published(Struct, frozen=True):
    """A published total of one inference."""

    name: str
    source: str
    layers: tuple[Layer, ...]
    ticks: int
    """Ticks of the reference clock of its device."""
    generations: tuple[Generation, ...]
    threads: int = 1
    clock_mhz: float = 600
    reference_mhz: float = 100
    parameters: Memory = Memory.INTERNAL
    arena: Memory = Memory.INTERNAL
    has_loads: bool = False
    """Whether operators of the file load the parameters from flash."""


_PERSON: Final = _mobilenet_v1(96)
_README: Final = "XMOS ai_tools, examples/app_profiling/README.rst, 2023-08"
_RESULTS: Final = "XMOS aisrv, profiling results"

PUBLISHED: Final = (
    Published(
        "person detector, 1 thread", _README, _PERSON, 3_054_809, (Generation.G2023, Generation.PLAIN),
    ),
    Published(
        "person detector, 5 threads", _README, _PERSON, 800_767, (Generation.G2023, Generation.PLAIN),
        threads=5,
    ),
    Published(
        "person detector, parameters by fast flash", "XMOS ai_tools, issue 903, 2024-07", _PERSON, 3_320_000,
        (Generation.G2024,), has_loads=True,
    ),
    Published(
        "MobileNet v1 0.25, 128 x 128, parameters by the flash server", f"{_RESULTS}, 2022-01",
        _mobilenet_v1(128), 35_704_151, (Generation.G2022,), clock_mhz=700, reference_mhz=175, has_loads=True,
    ),
    Published(
        "MobileNet v1 0.25, 192 x 192, all in external memory", f"{_RESULTS}, 2021-11", _mobilenet_v1(192),
        198_707_759, (Generation.G2021, Generation.G2022), clock_mhz=700, reference_mhz=175,
        parameters=Memory.EXTERNAL, arena=Memory.EXTERNAL,
    ),
)  # fmt: skip
"""Totals of networks whose shapes are known."""


def layers_of(model: Model, *, is_plain: bool) -> tuple[Layer, ...]:
    """Return the convolutions of a model with more than one pixel; of a converted file, those converted."""
    return tuple(_layers(model, is_plain=is_plain))


def _layers(model: Model, *, is_plain: bool) -> Iterator[Layer]:
    for operator in model.operators:
        if operator.is_custom is is_plain:
            continue
        node = OperatorTensors.of(model, operator)
        depthwise = _is_depthwise(node)
        if depthwise is None or node.output is None or len(node.output.shape) != 4:
            continue
        _, height, width, channels = node.output.shape
        if height * width > 1:
            yield depthwise, height, width, channels


def published_of(model: Model, device: DeviceModel, file: FileGeneration) -> tuple[Published, ...]:
    """Return the published totals of a model on a device like that of the run."""
    if device.kernels is not Kernels.OPTIMIZED:
        return ()
    has_loads = any(operator.name in FLASH_LOADS for operator in model.operators)
    candidates = [each for each in PUBLISHED if _is_like(each, device, file, has_loads=has_loads)]
    if not candidates:
        return ()
    layers = layers_of(model, is_plain=file.is_plain)
    return tuple(each for each in candidates if each.layers == layers)


def _is_like(each: Published, device: DeviceModel, file: FileGeneration, *, has_loads: bool) -> bool:
    flash = FlashPath.FAST if Generation.G2024 in each.generations else FlashPath.SERVER
    return (
        file.is_certain
        and file.generation in each.generations
        and each.threads == device.threads
        and each.clock_mhz == device.core_mhz
        and each.reference_mhz == device.tick_mhz
        and each.arena is device.arena
        and each.parameters is (device.parameters or Memory.INTERNAL)
        and each.has_loads == has_loads
        and (not has_loads or device.flash is flash)
        and max(device.cores, 5) == 5
    )


def _is_depthwise(node: OperatorTensors) -> bool | None:
    """Return whether a convolution has a window for each channel; None for what is none."""
    name = node.operator.name
    if name in ("CONV_2D", "DEPTHWISE_CONV_2D"):
        return name == "DEPTHWISE_CONV_2D"
    if name != "XC_conv2d_v2":
        return None
    layer = convolution_of(node)
    return None if layer is None else layer.form.is_depthwise
