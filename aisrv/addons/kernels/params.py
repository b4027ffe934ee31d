"""The parameters of kernels: buffers, shapes, quantization and options of one operator, as values.

Names are those of ember's parameter structs, which are TensorFlow Lite Micro's. Shapes are NHWC, those of
convolution weights OHWI. Source: "The INT8 kernel engine", section KernelBackend.

Buffers are memoryviews of the arena, of signed bytes (format "b"), and stay where they are as long as the
kernel exists: a kernel is prepared once with its parameters and then invoked any number of times.

Kernels of int16 activations (`aisrv.addons.kernels.backend.Kernels`) have the same parameters: activations
are signed halfwords (format "h"), weights signed bytes, biases signed words of 64 or 32 bits (format "q",
"i"). Those of float32 have floats everywhere (format "f"), and UNQUANTIZED for each quantization.
"""

import enum
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from aisrv.model import Padding

Buffer: TypeAlias = memoryview
"""Signed bytes, format "b", halfwords, format "h", or floats, format "f"; weights are read-only."""

Bias: TypeAlias = memoryview
"""Signed words, format "i" (or "q" beside int16, floats beside floats), read-only: one for each channel."""

Shape4: TypeAlias = tuple[int, int, int, int]

NO_SCRATCH: Final = memoryview(bytearray()).cast("b")


@dataclass(frozen=True, slots=True)
class ElementType:
    """A type of activations: its name, its format in a memoryview, and its range where it is quantized."""

    name: str
    format: str
    """Format in a memoryview."""
    low: int
    """The lowest value."""
    high: int
    """The highest value."""


INT8: Final = ElementType("int8", "b", -(1 << 7), (1 << 7) - 1)
INT16: Final = ElementType("int16", "h", -(1 << 15), (1 << 15) - 1)
"""Its zero points are 0."""
FLOAT32: Final = ElementType("float32", "f", 0, 0)
"""Not quantized: its only zero point is 0."""


class ScaleProduct(enum.Enum):
    """Precision of the product of an input's scale and that of weights as a whole."""

    DOUBLE = "double"
    """Double precision, as TensorFlow Lite Micro does today."""
    FLOAT32 = "float32"
    """Float32, as earlier versions do, those of devices among them, and TensorFlow Lite."""


class FusedActivation(enum.Enum):
    """The activation fused into an operator; TANH, SIGN_BIT and SIGMOID have no kernel."""

    NONE = 0
    """No activation."""
    RELU = 1
    """At least 0."""
    RELU_N1_TO_1 = 2
    """-1 to 1."""
    RELU6 = 3
    """0 to 6."""
    TANH = 4
    SIGN_BIT = 5
    SIGMOID = 6


@dataclass(frozen=True, slots=True)
class QuantParam:
    """real = scale * (value - zero_point); the scale is a float32."""

    scale: float
    zero_point: int


UNQUANTIZED: Final = QuantParam(1.0, 0)
"""What float32 has."""


@dataclass(frozen=True, slots=True)
class PerChannelQuantParam:
    """A float32 scale and an integer zero point for each index of a dimension."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    quantized_dimension: int


@dataclass(frozen=True, slots=True)
class ConvolutionParams:
    """Parameters that CONV_2D and DEPTHWISE_CONV_2D share.

    Without `weights_per_channel_quant`, of output channels, the weights have one scale; without a bias it is
    zeros. Strides are pixels from one window to the next, dilations from one tap of a window to the next.
    """

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
    """Memory that the kernel may use; as long as the scratch query said."""


@dataclass(frozen=True, slots=True)
class Conv2dParams(ConvolutionParams):
    """CONV_2D: weights [Cout, KH, KW, Cin]."""


@dataclass(frozen=True, slots=True)
class DepthwiseConv2dParams(ConvolutionParams):
    """DEPTHWISE_CONV_2D: weights [1, KH, KW, Cin * depth_multiplier].

    Each input channel makes `depth_multiplier` output channels, one beside the other.
    """

    depth_multiplier: int


@dataclass(frozen=True, slots=True)
class FullyConnectedParams:
    """FULLY_CONNECTED: input [batch, in], weights [output_depth, in], output [batch, output_depth].

    Without `weights_per_channel_quant`, of outputs, the weights have one scale; without a bias it is zeros.
    `scale_product` is of the input's scale and that of the weights as a whole.
    """

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
    scale_product: ScaleProduct = ScaleProduct.DOUBLE


@dataclass(frozen=True, slots=True)
class PoolParams:
    """AVERAGE_POOL_2D and MAX_POOL_2D: input and output are quantized alike.

    Windows are of `filter_h` by `filter_w` pixels, and begin `stride_h` and `stride_w` pixels apart.
    """

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
    """SOFTMAX over rows, [batch, classes], of `beta` times the input."""

    input: Buffer
    input_shape: tuple[int, int]
    input_quant: QuantParam
    output: Buffer
    output_quant: QuantParam
    beta: float
    scratch: Buffer = NO_SCRATCH
    """Memory that the kernel may use; as long as the scratch query said."""


@dataclass(frozen=True, slots=True)
class ElementwiseParams:
    """Parameters that ADD, SUB and MUL share."""

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


@dataclass(frozen=True, slots=True)
class SubParams(ElementwiseParams):
    """SUB of float32; inputs repeat as those of MUL do."""


@dataclass(frozen=True, slots=True)
class MeanParams:
    """MEAN of float32 over the middle one of three dimensions, [outer, count, inner]."""

    input: Buffer
    input_shape: tuple[int, int, int]
    output: Buffer


@dataclass(frozen=True, slots=True)
class FunctionParams:
    """A function of float32 from value to value, as LOGISTIC is."""

    input: Buffer
    output: Buffer


@dataclass(frozen=True, slots=True)
class PadParams:
    """PAD of the height and the width of pictures, [batch, height, width, bytes of a pixel].

    `top` and `left` are pixels of the border, `fill` is its byte, signed.
    """

    input: Buffer
    input_shape: Shape4
    output: Buffer
    output_shape: Shape4
    top: int
    left: int
    fill: int
