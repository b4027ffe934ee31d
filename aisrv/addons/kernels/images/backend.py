"""A kernel backend that executes the C kernels of a relocatable image, operator by operator.

The backend `numpy` computes the rest (sums that may leave 32 bits, a softmax of more classes than the C
kernel holds). Buffers are copied into the machine and back at each call.
"""

from collections.abc import Callable, Sequence
from functools import partial
from importlib.resources import files
from typing import Any, Final

from aisrv.addons.kernels.backend import Kernel, KernelBackend, TableBackend
from aisrv.addons.kernels.backends.fallback import Fallback
from aisrv.addons.kernels.errors import InternalError
from aisrv.addons.kernels.images.parameters import STEPS, Places, Step
from aisrv.addons.kernels.images.structures import KERNELS
from aisrv.addons.kernels.params import Buffer, ElementwiseParams
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE
from aisrv.addons.kernels.relocatable.runtime import LoadMode, Runtime
from aisrv.model.relocatable.container import Core, Image
from aisrv.model.relocatable.errors import BuildError, RelocatableError
from aisrv.model.relocatable.network import PLACE_WEIGHTS

IMAGE: Final = "kernels-cortex-m4.nbin"
"""The image of all kernels that is shipped."""

_PLACE_ALIGNMENT: Final = 16


def relocatable_backend() -> KernelBackend:
    """Return the shipped image's kernels, and `numpy` for the rest; ModuleNotFoundError without unicorn."""
    import unicorn  # noqa: F401 - the first kernel would be too late to say that it is missing

    from aisrv.addons.kernels.backends.registry import find_backend

    image = (files(__package__) / "images" / IMAGE).read_bytes()
    return Fallback(RelocatableBackend(image), find_backend("numpy"))


class RelocatableBackend(TableBackend):
    """The kernels of an image, each prepared kernel with an instance of its own."""

    def __init__(self, image: bytes) -> None:
        """Check the image. Raises ImageError."""
        super().__init__({operator: partial(self._prepared, step) for operator, step in STEPS.items()})
        self._core: Final[Core] = Image.from_bytes(image).variant.core
        self._image: Final = image

    def _prepared(self, prepare: Callable[[Any, Places], Step], params: Any) -> Kernel:  # noqa: ANN401
        places = _KernelPlaces()
        try:
            step = prepare(params, places)
        except BuildError as error:
            raise NotImplementedError(str(error)) from error
        is_elementwise = isinstance(params, ElementwiseParams)
        inputs = (params.input1, params.input2) if is_elementwise else (params.input,)
        try:
            return self._kernel(step, places, inputs, params.output)
        except RelocatableError as error:
            raise InternalError(str(error)) from error

    def _kernel(
        self, step: Step, places: "_KernelPlaces", inputs: Sequence[Buffer], output: Buffer
    ) -> Kernel:
        constants = bytes(places.constants)
        at = FLASH_BASE + len(self._image)
        runtime = Runtime(
            self._core,
            flash_bytes=len(self._image) + len(constants),
            ram_bytes=places.size + (1 << 16),
            seconds=None,  # its loops end with the tensors
        )
        runtime.write_flash(FLASH_BASE, self._image)
        runtime.write_flash(at, constants)
        handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
        activations = runtime.malloc(places.size)
        runtime.use_memory(handle, at, activations, places.size)
        sources = [(activations + places.buffer(each), each) for each in inputs]
        target = activations + places.buffer(output)
        number, packed = KERNELS.index(step.kernel), bytes(step.parameters)
        ram = runtime.ram

        def invoke() -> None:
            for address, buffer in sources:
                ram.write(address, buffer)
            try:
                runtime.forward(handle, number, packed)
            except RelocatableError as error:
                raise InternalError(str(error)) from error
            output[:] = ram.view(target, len(output)).cast("b")

        return invoke


class _KernelPlaces:
    """Places of one kernel's buffers, one behind the other, and its constants."""

    def __init__(self) -> None:
        self.constants: Final = bytearray()
        self.size = 0
        self._known: dict[int, int] = {}

    def buffer(self, buffer: Buffer) -> int:
        key = id(buffer)
        if key not in self._known:
            self._known[key] = self.size
            self.size += -(-len(buffer) // _PLACE_ALIGNMENT) * _PLACE_ALIGNMENT
        return self._known[key]

    def constant(self, data: bytes) -> int:
        at = len(self.constants)
        self.constants.extend(data + bytes(-len(data) % 4))
        return at | PLACE_WEIGHTS
