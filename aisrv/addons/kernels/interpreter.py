"""The engine of our own kernels as an interpreter, on one of their backends.

The head of the arena is TFLM's to the byte if the backend asks for no scratch memory of its own, as ours do:
like on a device, a run overwrites its inputs where the plan reuses their memory ("Inference engines", section
Bindings).
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.addons.kernels.backends.registry import default_backend, find_backend, plain_name
from aisrv.addons.kernels.errors import KernelError
from aisrv.addons.kernels.network.errors import ArenaTooSmall, NetworkError
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.network.network import Network
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import Confinement, TensorLayout, warm_up
from aisrv.model.errors import LoadResult

if TYPE_CHECKING:
    from aisrv.addons.kernels.backend import KernelBackend

CONFINEMENTS: Final = {
    "reference": Confinement.BEFORE_LOAD,
    "numpy": Confinement.BEFORE_LOAD,
    "native": Confinement.BEFORE_LOAD,
}
"""Sandbox entry of our backends' workers; others may make code and start threads at any time."""


class KernelsInterpreter:
    """One model as a network of kernels. Whatever the model, its errors are ModelError and InvokeError."""

    def __init__(self, backend: str | None = None, tensor_folder: Path | None = None) -> None:
        """Create one on a backend, or the fastest; it writes tensors of runs into `tensor_folder`."""
        self._backend_name = backend or default_backend()
        self._folder = tensor_folder
        self._network: Network | None = None
        self._backend: KernelBackend | KernelError
        try:
            self._backend = find_backend(self._backend_name)
        except KernelError as error:
            self._backend = error  # which is what loading a model says

    @property
    def confinement(self) -> Confinement:
        """Moment at which the worker enters its sandbox; backends of others load a model before."""
        return CONFINEMENTS.get(plain_name(self._backend_name), Confinement.EMULATOR_AFTER_LOAD)

    def prepare(self) -> None:
        """Have NumPy do its late imports."""
        if self._folder is not None:
            import_module("aisrv.addons.kernels.network.observers")
        if self.confinement is Confinement.BEFORE_LOAD:
            warm_up(KernelsInterpreter(self._backend_name))

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        """Load a model file and prepare its kernels; ModelError for one that this engine cannot run."""
        try:
            if isinstance(self._backend, KernelError):
                raise self._backend
            network = load_network(model, self._backend, arena_bytes=arena_bytes)
        except ArenaTooSmall as error:
            raise ModelError(str(error), LoadResult.TENSORS_DO_NOT_FIT) from error
        except NetworkError as error:
            raise ModelError(str(error), LoadResult.UNSUPPORTED) from error
        except KernelError as error:
            raise ModelError(str(error)) from error
        if self._folder is not None:
            from aisrv.addons.kernels.network.observers import TensorFiles, observed

            try:
                network = observed(network, TensorFiles(self._folder))
            except OSError as error:
                raise ModelError(f"the folder for tensors: {error}") from error
        self._network = network
        return TensorLayout(tuple(map(len, network.inputs)), tuple(map(len, network.outputs)))

    def set_input(self, number: int, data: memoryview) -> None:
        self._loaded().inputs[number][:] = data.cast("b")

    def invoke(self) -> None:
        """Run the model once. Raises InvokeError."""
        try:
            self._loaded().invoke()
        except (KernelError, OSError) as error:
            raise InvokeError(str(error)) from error

    def get_input(self, number: int, into: memoryview) -> None:
        into[:] = self._loaded().inputs[number].cast("B")

    def get_output(self, number: int, into: memoryview) -> None:
        into[:] = self._loaded().outputs[number].cast("B")

    def _loaded(self) -> Network:
        if self._network is None:
            raise InvokeError("no model is loaded")
        return self._network
