"""The tensors of a loaded model in memory, as `InferenceEngine` sees them."""

from aisrv.inference.interpreter import TensorLayout


class TensorMemory:
    """Base of what runs one model: sizes and bytes of its inputs and outputs."""

    def __init__(self) -> None:
        self._layout = TensorLayout((), ())
        self._inputs: list[memoryview] = []
        self._outputs: list[memoryview] = []

    @property
    def layout(self) -> TensorLayout:
        """Sizes of the tensors; empty before `load` and after `close`."""
        return self._layout

    def input(self, number: int) -> memoryview:
        """Return the memory of an input: `invoke` starts from it and may overwrite it."""
        return self._inputs[number][:]

    def output(self, number: int) -> memoryview:
        """Return the memory of an output: zeros until the first `invoke`, then the result of the last."""
        return self._outputs[number][:]

    def _place(self, layout: TensorLayout, memory: memoryview) -> None:
        self._layout = layout
        self._inputs, self._outputs = layout.views(memory)

    def _forget(self) -> None:
        self._layout = TensorLayout((), ())
        self._inputs, self._outputs = [], []
