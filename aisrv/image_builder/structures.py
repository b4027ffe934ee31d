"""The parameters of our C kernels as values: the structures of `c/network.h`, field by field."""

from typing import Final, TypeAlias

from aisrv.model.relocatable.errors import BuildError
from aisrv.values.packet import I32, U32, Packet

KERNELS: Final = (
    "conv_2d",
    "depthwise_conv_2d",
    "fully_connected",
    "average_pool",
    "max_pool",
    "softmax",
    "add",
    "mul",
    "copy",
    "pad",
    "mean",
)
"""C functions by number."""


class Convolution(Packet, byte_order="<", error=BuildError, name="the parameters of a convolution"):
    """`struct convolution`."""

    input: U32
    output: U32
    weights: U32
    bias: U32
    multipliers: U32
    batches: I32
    in_h: I32
    in_w: I32
    in_c: I32
    groups: I32
    out_h: I32
    out_w: I32
    out_c: I32
    taps_h: I32
    taps_w: I32
    stride_h: I32
    stride_w: I32
    dilation_h: I32
    dilation_w: I32
    before_h: I32
    before_w: I32
    in_zero: I32
    out_zero: I32
    low: I32
    high: I32
    depth_multiplier: I32


class FullyConnected(
    Packet, byte_order="<", error=BuildError, name="the parameters of a fully connected layer"
):
    """`struct fully_connected`."""

    input: U32
    output: U32
    weights: U32
    bias: U32
    multipliers: U32
    batches: I32
    inputs: I32
    outputs: I32
    in_zero: I32
    weights_zero: I32
    out_zero: I32
    low: I32
    high: I32


class Pool(Packet, byte_order="<", error=BuildError, name="the parameters of a pool"):
    """`struct pool`."""

    input: U32
    output: U32
    batches: I32
    in_h: I32
    in_w: I32
    channels: I32
    out_h: I32
    out_w: I32
    taps_h: I32
    taps_w: I32
    stride_h: I32
    stride_w: I32
    before_h: I32
    before_w: I32
    low: I32
    high: I32


class Softmax(Packet, byte_order="<", error=BuildError, name="the parameters of a softmax"):
    """`struct softmax`."""

    input: U32
    output: U32
    exponentials: U32
    rows: I32
    classes: I32


class Elementwise(Packet, byte_order="<", error=BuildError, name="the parameters of a sum or product"):
    """`struct elementwise`."""

    input1: U32
    input2: U32
    output: U32
    dimensions: U32
    rank: I32
    length: I32
    zero1: I32
    zero2: I32
    out_zero: I32
    low: I32
    high: I32
    mantissa1: I32
    shift1: I32
    mantissa2: I32
    shift2: I32
    out_mantissa: I32
    out_shift: I32


class Copy(Packet, byte_order="<", error=BuildError, name="the parameters of a copy"):
    """`struct copy`."""

    input: U32
    output: U32
    length: I32


class Pad(Packet, byte_order="<", error=BuildError, name="the parameters of a copy with borders"):
    """`struct pad`."""

    input: U32
    output: U32
    dimensions: U32
    rank: I32
    copies: I32
    run: I32
    first: I32
    length: I32
    fill: I32


class Mean(Packet, byte_order="<", error=BuildError, name="the parameters of a mean"):
    """`struct mean`."""

    input: U32
    output: U32
    kept: U32
    reduced: U32
    kept_rank: I32
    reduced_rank: I32
    length: I32
    count: I32
    in_zero: I32
    out_zero: I32
    mantissa: I32
    shift: I32


Parameters: TypeAlias = Convolution | FullyConnected | Pool | Softmax | Elementwise | Copy | Pad | Mean
