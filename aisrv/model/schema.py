"""TensorFlow Lite's schema for the reader: written by benchmarks/train/generate_schema.py.

A field is its slot in the field list, its type and its default. Types of numbers are those of the `struct`
module, `s` is a string, `union` a table of some kind, any other name a table; `[` makes it a vector.
"""

from typing import Final

Field = tuple[int, str, int | float | None]

SCHEMA_VERSION: Final = 3
FILE_IDENTIFIER: Final = b"TFL3"
"""Bytes 4 to 7 of every file."""

TABLES: Final[dict[str, dict[str, Field]]] = {
    "Model": {
        "version": (2, "I", 0),
        "operator_codes": (3, "[OperatorCode", None),
        "subgraphs": (4, "[SubGraph", None),
        "description": (5, "s", None),
        "buffers": (6, "[Buffer", None),
        "metadata_buffer": (7, "[i", None),
        "metadata": (8, "[Metadata", None),
        "signature_defs": (9, "[SignatureDef", None),
    },
    "OperatorCode": {
        "deprecated_builtin_code": (2, "b", 0),
        "custom_code": (3, "s", None),
        "version": (4, "i", 1),
        "builtin_code": (5, "i", 0),
    },
    "Buffer": {
        "data": (2, "[B", None),
        "offset": (3, "Q", 0),
        "size": (4, "Q", 0),
    },
    "SubGraph": {
        "tensors": (2, "[Tensor", None),
        "inputs": (3, "[i", None),
        "outputs": (4, "[i", None),
        "operators": (5, "[Operator", None),
        "name": (6, "s", None),
        "debug_metadata_index": (7, "i", -1),
    },
    "Tensor": {
        "shape": (2, "[i", None),
        "type": (3, "b", 0),
        "buffer": (4, "I", 0),
        "name": (5, "s", None),
        "quantization": (6, "QuantizationParameters", None),
        "is_variable": (7, "?", False),
        "sparsity": (8, "SparsityParameters", None),
        "shape_signature": (9, "[i", None),
        "has_rank": (10, "?", False),
        "variant_tensors": (11, "[VariantSubType", None),
    },
    "QuantizationParameters": {
        "min": (2, "[f", None),
        "max": (3, "[f", None),
        "scale": (4, "[f", None),
        "zero_point": (5, "[q", None),
        "details_type": (6, "B", 0),
        "details": (7, "union", None),
        "quantized_dimension": (8, "i", 0),
    },
    "SparsityParameters": {
        "traversal_order": (2, "[i", None),
        "block_map": (3, "[i", None),
        "dim_metadata": (4, "[DimensionMetadata", None),
    },
    "Operator": {
        "opcode_index": (2, "I", 0),
        "inputs": (3, "[i", None),
        "outputs": (4, "[i", None),
        "builtin_options_type": (5, "B", 0),
        "builtin_options": (6, "union", None),
        "custom_options": (7, "[B", None),
        "custom_options_format": (8, "b", 0),
        "mutating_variable_inputs": (9, "[?", None),
        "intermediates": (10, "[i", None),
        "large_custom_options_offset": (11, "Q", 0),
        "large_custom_options_size": (12, "Q", 0),
        "builtin_options2_type": (13, "B", 0),
        "builtin_options2": (14, "union", None),
        "debug_metadata_index": (15, "i", -1),
    },
    "Metadata": {
        "name": (2, "s", None),
        "buffer": (3, "I", 0),
    },
    "AddOptions": {
        "fused_activation_function": (2, "b", 0),
        "pot_scale_int16": (3, "?", True),
    },
    "ArgMaxOptions": {
        "output_type": (2, "b", 0),
    },
    "BatchMatMulOptions": {
        "adj_x": (2, "?", False),
        "adj_y": (3, "?", False),
        "asymmetric_quantize_inputs": (4, "?", False),
    },
    "CallOnceOptions": {
        "init_subgraph_index": (2, "i", 0),
    },
    "ConcatenationOptions": {
        "axis": (2, "i", 0),
        "fused_activation_function": (3, "b", 0),
    },
    "Conv2DOptions": {
        "padding": (2, "b", 0),
        "stride_w": (3, "i", 0),
        "stride_h": (4, "i", 0),
        "fused_activation_function": (5, "b", 0),
        "dilation_w_factor": (6, "i", 1),
        "dilation_h_factor": (7, "i", 1),
        "quantized_bias_type": (8, "b", 0),
    },
    "DepthToSpaceOptions": {
        "block_size": (2, "i", 0),
    },
    "DepthwiseConv2DOptions": {
        "padding": (2, "b", 0),
        "stride_w": (3, "i", 0),
        "stride_h": (4, "i", 0),
        "depth_multiplier": (5, "i", 0),
        "fused_activation_function": (6, "b", 0),
        "dilation_w_factor": (7, "i", 1),
        "dilation_h_factor": (8, "i", 1),
    },
    "FullyConnectedOptions": {
        "fused_activation_function": (2, "b", 0),
        "weights_format": (3, "b", 0),
        "keep_num_dims": (4, "?", False),
        "asymmetric_quantize_inputs": (5, "?", False),
        "quantized_bias_type": (6, "b", 0),
    },
    "GatherOptions": {
        "axis": (2, "i", 0),
        "batch_dims": (3, "i", 0),
    },
    "IfOptions": {
        "then_subgraph_index": (2, "i", 0),
        "else_subgraph_index": (3, "i", 0),
    },
    "LeakyReluOptions": {
        "alpha": (2, "f", 0.0),
    },
    "MirrorPadOptions": {
        "mode": (2, "b", 0),
    },
    "MulOptions": {
        "fused_activation_function": (2, "b", 0),
    },
    "PackOptions": {
        "values_count": (2, "i", 0),
        "axis": (3, "i", 0),
    },
    "Pool2DOptions": {
        "padding": (2, "b", 0),
        "stride_w": (3, "i", 0),
        "stride_h": (4, "i", 0),
        "filter_width": (5, "i", 0),
        "filter_height": (6, "i", 0),
        "fused_activation_function": (7, "b", 0),
    },
    "ResizeBilinearOptions": {
        "align_corners": (4, "?", False),
        "half_pixel_centers": (5, "?", False),
    },
    "ResizeNearestNeighborOptions": {
        "align_corners": (2, "?", False),
        "half_pixel_centers": (3, "?", False),
    },
    "SVDFOptions": {
        "rank": (2, "i", 0),
        "fused_activation_function": (3, "b", 0),
        "asymmetric_quantize_inputs": (4, "?", False),
    },
    "SoftmaxOptions": {
        "beta": (2, "f", 0.0),
    },
    "SpaceToDepthOptions": {
        "block_size": (2, "i", 0),
    },
    "StridedSliceOptions": {
        "begin_mask": (2, "i", 0),
        "end_mask": (3, "i", 0),
        "ellipsis_mask": (4, "i", 0),
        "new_axis_mask": (5, "i", 0),
        "shrink_axis_mask": (6, "i", 0),
        "offset": (7, "?", False),
    },
    "SubOptions": {
        "fused_activation_function": (2, "b", 0),
        "pot_scale_int16": (3, "?", True),
    },
    "TransposeConvOptions": {
        "padding": (2, "b", 0),
        "stride_w": (3, "i", 0),
        "stride_h": (4, "i", 0),
        "fused_activation_function": (5, "b", 0),
        "quantized_bias_type": (6, "b", 0),
    },
    "UnidirectionalSequenceLSTMOptions": {
        "fused_activation_function": (2, "b", 0),
        "cell_clip": (3, "f", 0.0),
        "proj_clip": (4, "f", 0.0),
        "time_major": (5, "?", False),
        "asymmetric_quantize_inputs": (6, "?", False),
        "diagonal_recurrent_tensors": (7, "?", False),
    },
    "UnpackOptions": {
        "num": (2, "i", 0),
        "axis": (3, "i", 0),
    },
    "VarHandleOptions": {
        "container": (2, "s", None),
        "shared_name": (3, "s", None),
    },
    "WhileOptions": {
        "cond_subgraph_index": (2, "i", 0),
        "body_subgraph_index": (3, "i", 0),
    },
}

OPTION_TABLES: Final = {
    "AddOptions": 11,
    "ArgMaxOptions": 40,
    "BatchMatMulOptions": 101,
    "CallOnceOptions": 103,
    "ConcatenationOptions": 10,
    "Conv2DOptions": 1,
    "DepthToSpaceOptions": 94,
    "DepthwiseConv2DOptions": 2,
    "FullyConnectedOptions": 8,
    "GatherOptions": 23,
    "IfOptions": 92,
    "LeakyReluOptions": 75,
    "MirrorPadOptions": 77,
    "MulOptions": 21,
    "PackOptions": 59,
    "Pool2DOptions": 5,
    "ResizeBilinearOptions": 15,
    "ResizeNearestNeighborOptions": 74,
    "SVDFOptions": 6,
    "SoftmaxOptions": 9,
    "SpaceToDepthOptions": 19,
    "StridedSliceOptions": 32,
    "SubOptions": 28,
    "TransposeConvOptions": 49,
    "UnidirectionalSequenceLSTMOptions": 71,
    "UnpackOptions": 64,
    "VarHandleOptions": 111,
    "WhileOptions": 93,
}
"""The number of each table of options in the union of an operator."""

OPERATORS: Final = """
ADD AVERAGE_POOL_2D CONCATENATION CONV_2D DEPTHWISE_CONV_2D DEPTH_TO_SPACE DEQUANTIZE
EMBEDDING_LOOKUP FLOOR FULLY_CONNECTED HASHTABLE_LOOKUP L2_NORMALIZATION L2_POOL_2D
LOCAL_RESPONSE_NORMALIZATION LOGISTIC LSH_PROJECTION LSTM MAX_POOL_2D MUL RELU RELU_N1_TO_1 RELU6
RESHAPE RESIZE_BILINEAR RNN SOFTMAX SPACE_TO_DEPTH SVDF TANH CONCAT_EMBEDDINGS SKIP_GRAM CALL CUSTOM
EMBEDDING_LOOKUP_SPARSE PAD UNIDIRECTIONAL_SEQUENCE_RNN GATHER BATCH_TO_SPACE_ND SPACE_TO_BATCH_ND
TRANSPOSE MEAN SUB DIV SQUEEZE UNIDIRECTIONAL_SEQUENCE_LSTM STRIDED_SLICE BIDIRECTIONAL_SEQUENCE_RNN
EXP TOPK_V2 SPLIT LOG_SOFTMAX DELEGATE BIDIRECTIONAL_SEQUENCE_LSTM CAST PRELU MAXIMUM ARG_MAX
MINIMUM LESS NEG PADV2 GREATER GREATER_EQUAL LESS_EQUAL SELECT SLICE SIN TRANSPOSE_CONV
SPARSE_TO_DENSE TILE EXPAND_DIMS EQUAL NOT_EQUAL LOG SUM SQRT RSQRT SHAPE POW ARG_MIN FAKE_QUANT
REDUCE_PROD REDUCE_MAX PACK LOGICAL_OR ONE_HOT LOGICAL_AND LOGICAL_NOT UNPACK REDUCE_MIN FLOOR_DIV
REDUCE_ANY SQUARE ZEROS_LIKE FILL FLOOR_MOD RANGE RESIZE_NEAREST_NEIGHBOR LEAKY_RELU
SQUARED_DIFFERENCE MIRROR_PAD ABS SPLIT_V UNIQUE CEIL REVERSE_V2 ADD_N GATHER_ND COS WHERE RANK ELU
REVERSE_SEQUENCE MATRIX_DIAG QUANTIZE MATRIX_SET_DIAG ROUND HARD_SWISH IF WHILE
NON_MAX_SUPPRESSION_V4 NON_MAX_SUPPRESSION_V5 SCATTER_ND SELECT_V2 DENSIFY SEGMENT_SUM BATCH_MATMUL
PLACEHOLDER_FOR_GREATER_OP_CODES CUMSUM CALL_ONCE BROADCAST_TO RFFT2D CONV_3D IMAG REAL COMPLEX_ABS
HASHTABLE HASHTABLE_FIND HASHTABLE_IMPORT HASHTABLE_SIZE REDUCE_ALL CONV_3D_TRANSPOSE VAR_HANDLE
READ_VARIABLE ASSIGN_VARIABLE BROADCAST_ARGS RANDOM_STANDARD_NORMAL BUCKETIZE RANDOM_UNIFORM
MULTINOMIAL GELU DYNAMIC_UPDATE_SLICE RELU_0_TO_1 UNSORTED_SEGMENT_PROD UNSORTED_SEGMENT_MAX
UNSORTED_SEGMENT_SUM ATAN2 UNSORTED_SEGMENT_MIN SIGN BITCAST BITWISE_XOR RIGHT_SHIFT
STABLEHLO_LOGISTIC STABLEHLO_ADD STABLEHLO_DIVIDE STABLEHLO_MULTIPLY STABLEHLO_MAXIMUM
STABLEHLO_RESHAPE STABLEHLO_CLAMP STABLEHLO_CONCATENATE STABLEHLO_BROADCAST_IN_DIM
STABLEHLO_CONVOLUTION STABLEHLO_SLICE STABLEHLO_CUSTOM_CALL STABLEHLO_REDUCE STABLEHLO_ABS
STABLEHLO_AND STABLEHLO_COSINE STABLEHLO_EXPONENTIAL STABLEHLO_FLOOR STABLEHLO_LOG STABLEHLO_MINIMUM
STABLEHLO_NEGATE STABLEHLO_OR STABLEHLO_POWER STABLEHLO_REMAINDER STABLEHLO_RSQRT STABLEHLO_SELECT
STABLEHLO_SUBTRACT STABLEHLO_TANH STABLEHLO_SCATTER STABLEHLO_COMPARE STABLEHLO_CONVERT
STABLEHLO_DYNAMIC_SLICE STABLEHLO_DYNAMIC_UPDATE_SLICE STABLEHLO_PAD STABLEHLO_IOTA
STABLEHLO_DOT_GENERAL STABLEHLO_REDUCE_WINDOW STABLEHLO_SORT STABLEHLO_WHILE STABLEHLO_GATHER
STABLEHLO_TRANSPOSE DILATE STABLEHLO_RNG_BIT_GENERATOR REDUCE_WINDOW STABLEHLO_COMPOSITE
STABLEHLO_SHIFT_LEFT STABLEHLO_CBRT
""".split()  # noqa: SIM905 - one line for each would be 200
"""Builtin operators by their codes."""
