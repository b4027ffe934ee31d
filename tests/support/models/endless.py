"""A model that runs as long as it likes: the writer makes one subgraph, and a loop needs three."""

from typing import Any

import flatbuffers
import numpy as np
import tflite
from tflite import BuiltinOperator, BuiltinOptions, TensorType

LIMIT = 1 << 30
CODES = (BuiltinOperator.WHILE, BuiltinOperator.LESS, BuiltinOperator.MAXIMUM)
FILES_LIMIT = 1
"""Buffer with LIMIT; buffer 0 is the empty one."""


def endless_network() -> bytes:
    """While input 0, an int32, is less than LIMIT, go round: the loop leaves its value as it is."""
    builder = flatbuffers.Builder(1024)
    limit = builder.CreateByteVector(np.int32(LIMIT).tobytes())
    buffers = [_table(builder, "Buffer"), _table(builder, "Buffer", data=limit)]
    loop = _table(builder, "WhileOptions", cond_subgraph_index=1, body_subgraph_index=2)
    subgraphs = [
        _subgraph(builder, ("start", "end"), 0, [0], [1], loop),
        _subgraph(builder, ("value", "limit", "goes on"), 1, [0, 1], [2]),
        _subgraph(builder, ("value", "same", "next"), 2, [0, 0], [2]),
    ]
    codes = [
        _table(builder, "OperatorCode", deprecated_builtin_code=code, builtin_code=code, version=1)
        for code in CODES
    ]
    root = _table(
        builder,
        "Model",
        version=3,
        operator_codes=_offsets(builder, codes),
        subgraphs=_offsets(builder, subgraphs),
        buffers=_offsets(builder, buffers),
    )
    builder.Finish(root, file_identifier=b"TFL3")
    return bytes(builder.Output())


def _subgraph(
    builder: flatbuffers.Builder,
    names: tuple[str, ...],
    code: int,
    inputs: list[int],
    outputs: list[int],
    options: int = 0,
) -> int:
    """One operator on scalars; its first input is the subgraph's."""
    tensors = [
        _table(
            builder,
            "Tensor",
            shape=_numbers(builder, [1]),
            type=TensorType.BOOL if name == "goes on" else TensorType.INT32,
            buffer=FILES_LIMIT if name == "limit" else 0,
            name=builder.CreateString(name),
        )
        for name in names
    ]
    more = {"builtin_options_type": BuiltinOptions.WhileOptions, "builtin_options": options}
    operator = _table(
        builder,
        "Operator",
        opcode_index=code,
        inputs=_numbers(builder, inputs),
        outputs=_numbers(builder, outputs),
        **(more if options else {}),
    )
    return _table(
        builder,
        "SubGraph",
        tensors=_offsets(builder, tensors),
        inputs=_numbers(builder, [0]),
        outputs=_numbers(builder, outputs),
        operators=_offsets(builder, [operator]),
        name=builder.CreateString(names[0]),
    )


def _table(builder: flatbuffers.Builder, table: str, **fields: int) -> int:
    getattr(tflite, f"{table}Start")(builder)
    for name, value in fields.items():
        camel = "".join(part.capitalize() for part in name.split("_"))
        getattr(tflite, f"{table}Add{camel}")(builder, value)
    return int(getattr(tflite, f"{table}End")(builder))


def _offsets(builder: flatbuffers.Builder, offsets: list[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _numbers(builder: flatbuffers.Builder, values: list[int]) -> Any:
    return builder.CreateNumpyVector(np.array(values, np.int32))
