"""The parameters of kernels: buffers, shapes, quantization and options of one operator, as values.

Names are those of ember's parameter structs, which are TensorFlow Lite Micro's. Shapes are NHWC, those of
convolution weights OHWI. Source: "The INT8 kernel engine", section KernelBackend.

Buffers are memoryviews of the arena, of signed bytes (format "b"), and stay where they are as long as the
kernel exists: a kernel is prepared once with its parameters and then invoked any number of times.

Kernels of int16 activations (`aisrv.kernels.backend.Kernels`) have the same parameters: activations are
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
    """Format in a memoryview."""
    low: int
    """The lowest value."""
    high: int
    """The highest value."""


INT8: Final = ElementType("int8", "b", -(1 << 7), (1 << 7) - 1)
INT16: Final = ElementType("int16", "h", -(1 << 15), (1 << 15) - 1)
"""Its zero points are 0."""


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


@dataclass(frozen=True, slots=True)
class PerChannelQuantParam:
    """One scale and zero point for each index of a dimension."""

    scales: tuple[float, ...]
    """A float32 for each index."""
    zero_points: tuple[int, ...]
    """An integer for each index."""
    quantized_dimension: int


@dataclass(frozen=True, slots=True)
class ConvolutionParams:
    """Common parameters of CONV_2D and DEPTHWISE_CONV_2D."""

    input: Buffer
    """The input, NHWC."""
    input_shape: Shape4
    """[N, H, W, C] of the input."""
    input_quant: QuantParam
    """Quantization of the input."""
    weights: Buffer
    """The weights, OHWI."""
    weights_shape: Shape4
    weights_quant: QuantParam
    """Quantization of the weights as a whole."""
    weights_per_channel_quant: PerChannelQuantParam | None
    """Quantization of the weights by output channel; None: as a whole."""
    bias: Bias | None
    """One word for each output channel; None: zeros."""
    output: Buffer
    """The output, NHWC."""
    output_shape: Shape4
    """[N, H, W, C] of the output."""
    output_quant: QuantParam
    """Quantization of the output."""
    stride_w: int
    """Columns from one window to the next."""
    stride_h: int
    """Rows from one window to the next."""
    dilation_w_factor: int
    """Columns from one tap of a window to the next."""
    dilation_h_factor: int
    """Rows from one tap of a window to the next."""
    padding: Padding
    """Treatment of the border by windows."""
    activation: FusedActivation
    """The activation that ends the operator."""
    scratch: Buffer = field(default=NO_SCRATCH, kw_only=True)
    """Memory that the kernel may use; as long as the scratch query said."""


@dataclass(frozen=True, slots=True)
class Conv2dParams(ConvolutionParams):
    """CONV_2D: weights [Cout, KH, KW, Cin]."""


@dataclass(frozen=True, slots=True)
class DepthwiseConv2dParams(ConvolutionParams):
    """DEPTHWISE_CONV_2D: weights [1, KH, KW, Cin * depth_multiplier]."""

    depth_multiplier: int
    """Output channels of each input channel."""


@dataclass(frozen=True, slots=True)
class FullyConnectedParams:
    """FULLY_CONNECTED: weights [output_depth, in]; the batch is len(input) / in."""

    input: Buffer
    """Rows of numbers."""
    input_quant: QuantParam
    """Quantization of the input."""
    weights: Buffer
    """The weights, a row for each output."""
    weights_shape: tuple[int, int]
    """[output_depth, in]."""
    weights_quant: QuantParam
    """Quantization of the weights as a whole."""
    weights_per_channel_quant: PerChannelQuantParam | None
    """Quantization of the weights by output; None: as a whole."""
    bias: Bias | None
    """One word for each output; None: zeros."""
    output: Buffer
    """Rows of `output_depth` numbers."""
    output_depth: int
    """Outputs of a row."""
    output_quant: QuantParam
    """Quantization of the output."""
    activation: FusedActivation
    """The activation that ends the operator."""
    scale_product: ScaleProduct = ScaleProduct.DOUBLE
    """Precision of the product of the input's scale and that of the weights as a whole."""


@dataclass(frozen=True, slots=True)
class PoolParams:
    """AVERAGE_POOL_2D and MAX_POOL_2D: input and output are quantized alike."""

    input: Buffer
    """The input, NHWC."""
    input_shape: Shape4
    """[N, H, W, C] of the input."""
    input_quant: QuantParam
    """Quantization of the input."""
    output: Buffer
    """The output, NHWC."""
    output_shape: Shape4
    """[N, H, W, C] of the output."""
    output_quant: QuantParam
    """Quantization of the output."""
    stride_w: int
    """Columns from one window to the next."""
    stride_h: int
    """Rows from one window to the next."""
    filter_w: int
    """Columns of a window."""
    filter_h: int
    """Rows of a window."""
    padding: Padding
    """Treatment of the border by windows."""
    activation: FusedActivation
    """The activation that ends the operator."""


@dataclass(frozen=True, slots=True)
class SoftmaxParams:
    """SOFTMAX over rows: input_shape is [batch, classes]."""

    input: Buffer
    """Rows of numbers."""
    input_shape: tuple[int, int]
    """[batch, classes]."""
    input_quant: QuantParam
    """Quantization of the input."""
    output: Buffer
    """Rows of probabilities."""
    output_quant: QuantParam
    """Quantization of the output."""
    beta: float
    """Factor of the inputs."""
    scratch: Buffer = NO_SCRATCH
    """Memory that the kernel may use; as long as the scratch query said."""


@dataclass(frozen=True, slots=True)
class ElementwiseParams:
    """Common parameters of ADD and MUL."""

    input1: Buffer
    """The first input."""
    input1_quant: QuantParam
    """Quantization of the first input."""
    input2: Buffer
    """The second input."""
    input2_quant: QuantParam
    """Quantization of the second input."""
    output: Buffer
    output_quant: QuantParam
    """Quantization of the output."""
    activation: FusedActivation
    """The activation that ends the operator."""


@dataclass(frozen=True, slots=True)
class ElementwiseAddParams(ElementwiseParams):
    """ADD of two inputs of one length."""


@dataclass(frozen=True, slots=True)
class MulParams(ElementwiseParams):
    """MUL; an input whose length divides the other's repeats, as one value a channel does."""


@dataclass(frozen=True, slots=True)
class PadParams:
    """PAD of the height and the width of pictures; the last extent of both shapes is a pixel's bytes."""

    input: Buffer
    """The pictures."""
    input_shape: Shape4
    """Batch, height, width and bytes of a pixel."""
    output: Buffer
    """The pictures with their borders."""
    output_shape: Shape4
    """Shape of the input, borders included."""
    top: int
    """Rows of border above."""
    left: int
    """Columns of border on the left."""
    fill: int
    """The byte of the border, signed."""
