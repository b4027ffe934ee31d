"""A kernel backend that wants scratch memory, and a model to plan with it."""

from aisrv import digits
from aisrv.addons.kernels.backends.reference import ReferenceBackend
from aisrv.addons.kernels.params import Shape4
from aisrv.model import Model
from aisrv.model.reader import read_model


class Scratchy(ReferenceBackend):
    """Wants scratch as CMSIS-NN and esp-nn do ("The INT8 kernel engine", section KernelBackend)."""

    def conv2d_scratch_size(self, input_shape: Shape4, weights_shape: Shape4, output_shape: Shape4) -> int:
        _, height, width, depth = weights_shape
        return 4 * -(-height * width * depth // 4) * 4

    def softmax_scratch_size(self, num_classes: int) -> int:
        return 4 * num_classes


def digits_model() -> Model:
    return read_model(digits.model_bytes())
