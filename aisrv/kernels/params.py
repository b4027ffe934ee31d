"""The parameters of kernels: buffers, shapes, quantization and options of one operator, as values.

Names are those of ember's parameter structs, which are TensorFlow Lite Micro's. Shapes are NHWC, those of
convolution weights OHWI. Source: "The INT8 kernel engine", section KernelBackend.

Buffers are memoryviews of the arena, of signed bytes (format "b"), and stay where they are as long as the
kernel exists: a kernel is prepared once with its parameters and then invoked any number of times.

Kernels of int16 activations (`aisrv.kernels.backend.Int16Kernels`) have the same parameters: activations are
signed halfwords (format "h"), weights signed bytes, biases signed words of 64 or 32 bits (format "q", "i").
"""

import enum
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aisrv.model import Padding

Buffer: TypeAlias = memoryview
"""Signed bytes, format "b", or halfwords, format "h"; weights are read-only signed bytes."""

Bias: TypeAlias = memoryview
"""Signed words, format "i" (or "q" beside int16 activations), read-only: one for each output channel."""

Shape4: TypeAlias = tuple[int, int, int, int]

NO_SCRATCH: Final = memoryview(bytearray()).cast("b")


@dataclass(frozen=True, slots=True)
class ElementType:
    """A quantized type of activations: its name, its format in a memoryview, and its range."""

    name: str
    format: str
    low: int
    high: int


INT8: Final = ElementType("int8", "b", -(1 << 7), (1 << 7) - 1)
INT16: Final = ElementType("int16", "h", -(1 << 15), (1 << 15) - 1)
"""Its zero points are 0."""


class FusedActivation(enum.Enum):
    """The activation fused into an operator; TANH, SIGN_BIT and SIGMOID have no kernel."""

    NONE = 0
    RELU = 1
    RELU_N1_TO_1 = 2
    RELU6 = 3
    TANH = 4
    SIGN_BIT = 5
    SIGMOID = 6


@dataclass(frozen=True, slots=True)
class QuantParam:
    """real = scale * (value - zero_point); the scale is a float32."""

    scale: float
    zero_point: int


@dataclass(frozen=True, slots=True)
class PerChannelQuantParam:
    """One scale and zero point for each index of a dimension."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    quantized_dimension: int


@dataclass(frozen=True, slots=True)
class ConvolutionParams:
    """What CONV_2D and DEPTHWISE_CONV_2D have in common."""

    input: Buffer
    input_shape: Shape4
    input_quant: QuantParam
    weights: Buffer
    weights_shape: Shape4
    weights_quant: QuantParam
    weights_per_channel_quant: PerChannelQuantParam | None
    bias: Bias | None
    output: Buffer
    output_shape: Shape4
    output_quant: QuantParam
    stride_w: int
    stride_h: int
    dilation_w_factor: int
    dilation_h_factor: int
    padding: Padding
    activation: FusedActivation
    scratch: Buffer = field(default=NO_SCRATCH, kw_only=True)


@dataclass(frozen=True, slots=True)
class Conv2dParams(ConvolutionParams):
    """CONV_2D: weights [Cout, KH, KW, Cin]."""


@dataclass(frozen=True, slots=True)
class DepthwiseConv2dParams(ConvolutionParams):
    """DEPTHWISE_CONV_2D: weights [1, KH, KW, Cin * depth_multiplier]."""

    depth_multiplier: int


@dataclass(frozen=True, slots=True)
class FullyConnectedParams:
    """FULLY_CONNECTED: weights [output_depth, in]; the batch is len(input) / in."""

    input: Buffer
    input_quant: QuantParam
    weights: Buffer
    weights_shape: tuple[int, int]
    weights_quant: QuantParam
    weights_per_channel_quant: PerChannelQuantParam | None
    bias: Bias | None
    output: Buffer
    output_depth: int
    output_quant: QuantParam
    activation: FusedActivation


@dataclass(frozen=True, slots=True)
class PoolParams:
    """AVERAGE_POOL_2D and MAX_POOL_2D: input and output are quantized alike."""

    input: Buffer
    input_shape: Shape4
    input_quant: QuantParam
    output: Buffer
    output_shape: Shape4
    output_quant: QuantParam
    stride_w: int
    stride_h: int
    filter_w: int
    filter_h: int
    padding: Padding
    activation: FusedActivation


@dataclass(frozen=True, slots=True)
class SoftmaxParams:
    """SOFTMAX over rows: input_shape is [batch, classes]."""

    input: Buffer
    input_shape: tuple[int, int]
    input_quant: QuantParam
    output: Buffer
    output_quant: QuantParam
    beta: float
    scratch: Buffer = NO_SCRATCH


@dataclass(frozen=True, slots=True)
class ElementwiseParams:
    """What ADD and MUL have in common."""

    input1: Buffer
    input1_quant: QuantParam
    input2: Buffer
    input2_quant: QuantParam
    output: Buffer
    output_quant: QuantParam
    activation: FusedActivation


@dataclass(frozen=True, slots=True)
class ElementwiseAddParams(ElementwiseParams):
    """ADD of two inputs of one length."""


@dataclass(frozen=True, slots=True)
class MulParams(ElementwiseParams):
    """MUL; an input whose length divides the other's repeats, as one value a channel does."""
