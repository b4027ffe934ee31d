"""SVDF: a layer of filters over what it has seen, of rank one each. Source: `svdf_common.cc` of TFLM."""

from contextlib import suppress

import numpy as np

from aisrv.addons.kernels.arithmetic import (
    INT8_MAX,
    INT8_MIN,
    Multiplier,
    float32,
    multiply_scales,
    quantized_multiplier,
)
from aisrv.addons.kernels.backend import Kernel
from aisrv.addons.kernels.backends.numpy.words import word_scale, wrapped
from aisrv.addons.kernels.network.errors import NetworkError
from aisrv.addons.kernels.network.operator_node import OperatorNode, expect_shape, same_type
from aisrv.addons.kernels.params import QuantParam, ScaleProduct
from aisrv.addons.kernels.recurrent import RecurrentBackend, SvdfParams
from aisrv.model import TensorType


def svdf(node: OperatorNode) -> Kernel:
    """Prepare SVDF of int8 with a state of int8 or int16, a variable; as in TFLM, no activation is fused."""
    node.expect(5)
    source, features = node.input(0, TensorType.INT8), node.constant(1, TensorType.INT8)
    times = node.constant(2, TensorType.INT8, TensorType.INT16)
    bias = node.optional_input(3, TensorType.INT32)
    state, output = node.input(4), node.output(0, TensorType.INT8)
    same_type(times, state)
    if not state.tensor.is_variable:
        raise NetworkError(f"the state ({state}) must be a variable")
    if len(source.shape) != 2 or len(features.shape) != 2 or len(times.shape) != 2:
        raise NetworkError("input and weights must have two dimensions")
    batch, size = source.shape
    filters, memory = times.shape
    rank = node.options.integer("rank")
    if rank < 1 or filters % rank:
        raise NetworkError(f"the rank is {rank}, must divide {filters} filters")
    units = filters // rank
    expect_shape(features, (filters, size))
    expect_shape(state, (batch, memory * filters))
    expect_shape(output, (batch, units))
    if bias is not None:
        expect_shape(bias, (units,))

    quant, state_quant, output_quant = source.quantization, state.quantization, output.quantization
    to_state = _multiplier(quant, features.quantization, state_quant, node.scale_product)
    to_output = _multiplier(state_quant, times.quantization, output_quant, node.scale_product)
    lowest, highest = np.iinfo(state.array.dtype).min, np.iinfo(state.array.dtype).max
    read, write = source.array, output.array
    past = state.array.reshape(batch, filters, memory)
    if isinstance(node.backend, RecurrentBackend):
        params = SvdfParams(
            input=read,
            output=write,
            state=past,
            input_zero=quant.zero_point,
            state_zero=state_quant.zero_point,
            output_zero=output_quant.zero_point,
            features=features.array,
            times=times.array,
            bias=np.zeros(units, np.int64) if bias is None else bias.array.astype(np.int64),
            rank=rank,
            to_state=to_state,
            to_output=to_output,
        )
        with suppress(NotImplementedError):
            return node.backend.svdf(params)
    # Float64 holds every sum exactly, and is what BLAS multiplies.
    weights = features.array.T.astype(np.float64)
    time_weights = times.array.astype(np.int64)
    biases = 0 if bias is None else bias.array.astype(np.int64)
    scale_state, scale_output = word_scale((to_state,)), word_scale((to_output,))

    def kernel() -> None:
        past[..., :-1] = past[..., 1:]
        sums = (read.astype(np.float64) - quant.zero_point) @ weights
        newest = np.clip(scale_state(sums.astype(np.int64)), lowest, highest)
        # As TFLM did until late 2026: a zero point other than 0 may take a state of 8 bits past its bounds.
        past[..., -1] = (newest + state_quant.zero_point).astype(past.dtype)
        filtered = ((past.astype(np.int64) - state_quant.zero_point) * time_weights).sum(axis=-1)
        totals = filtered.reshape(batch, units, rank).sum(axis=-1) + biases
        values = wrapped(scale_output(totals) + output_quant.zero_point)
        np.clip(values, INT8_MIN, INT8_MAX, out=write, casting="unsafe")

    return kernel


def _multiplier(one: QuantParam, two: QuantParam, output: QuantParam, how: ScaleProduct) -> Multiplier:
    """The factor from sums of products to the output; in float32, so is the quotient."""
    real = multiply_scales(one.scale, two.scale, how) / output.scale
    return quantized_multiplier(float32(real) if how is ScaleProduct.FLOAT32 else real)
