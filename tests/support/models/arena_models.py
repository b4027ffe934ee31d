"""Models of operators in a row, and what TensorFlow Lite Micro takes for the reference models.

TFLM's figures are those of its `print_allocations()`, PyPI wheel tflite_micro 0.dev20261023182759.
"""

from aisrv.model import Model, Operator, TensorType
from aisrv.model.reader import read_model
from aisrv.model.values import Tensor
from tests.support.peers import mlperf_tiny

TFLM = {  # head, tail
    "ad01_int8": (768, 3216),
    "kws_ref_model": (16_000, 8272),
    "pretrainedResnet_quant": (49_152, 6832),
    "str_ww_ref_model": (6656, 9984),
    "vww_96_int8": (73_728, 29_952),
}


def reference_model(name: str) -> Model:
    return read_model(mlperf_tiny.model_bytes(name))


def chain(*sizes: int, outputs: tuple[int, ...] | None = None) -> Model:
    """Tensors of these sizes, each computed from the previous one."""
    tensors = tuple(
        Tensor(f"t{index}", (size,), TensorType.INT8, index=index) for index, size in enumerate(sizes)
    )
    operators = tuple(Operator(k, "LOGISTIC", (k,), (k + 1,)) for k in range(len(sizes) - 1))
    last = (len(sizes) - 1,)
    return Model(3, "", tensors, operators, (0,), last if outputs is None else outputs)


def lives(tensors: list[tuple[int, int, int]], operators: int) -> Model:
    """Tensors of a size, each written by an operator and read by another, by these numbers."""
    written: list[list[int]] = [[] for _ in range(operators)]
    read: list[list[int]] = [[] for _ in range(operators)]
    for index, (_, writer, reader) in enumerate(tensors):
        written[writer].append(index)
        read[reader].append(index)
    return Model(
        3,
        "",
        tuple(Tensor(f"t{n}", (size,), TensorType.INT8, index=n) for n, (size, _, _) in enumerate(tensors)),
        tuple(Operator(k, "CUSTOM", tuple(read[k]), tuple(written[k])) for k in range(operators)),
        (),
        (),
    )
