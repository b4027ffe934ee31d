"""Relocatable images as an interpreter: a Cortex-M core in this process, which is the worker's.

The image lies in the core's flash and runs in place, or from a copy in RAM. A run may overwrite its inputs,
as the plan of the activations reuses their memory.
"""

import mmap
from importlib import import_module
from typing import Final

from aisrv.addons.kernels.relocatable.fetches import fetch_counters
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, Memory
from aisrv.addons.kernels.relocatable.runtime import Handle, LoadMode, NetworkReport, Runtime, image_at
from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.interpreter import Confinement, MissingPackageError, TensorLayout
from aisrv.model.errors import LoadResult
from aisrv.model.relocatable.container import PAGE, Core, Image, is_image
from aisrv.model.relocatable.errors import ImageError, MachineError, RelocatableError
from aisrv.model.relocatable.stored import weights_place
from flash_server.client.cache import CacheCounters

DEFAULT_CORE: Final = Core.CORTEX_M4
COUNTED_LINES: Final = 10_000_000
"""Lines of the cache whose use is counted in a run. MLPerf Tiny's keyword spotting touches 8.4 million."""
CORES: Final = {core.label: core for core in Core}


class RelocatableInterpreter:
    """One image on one core. Whatever the image, errors are ModelError and InvokeError."""

    confinement = Confinement.EMULATOR

    def __init__(self, core: str | None = None, mode: str | None = None) -> None:
        """Create one without a model; ValueError for an unknown core, ImportError without unicorn."""
        name = core or DEFAULT_CORE.label
        if name not in CORES:
            raise ValueError(f"unknown core {name!r}; known ones: {', '.join(CORES)}")
        try:
            import unicorn  # noqa: F401 - slow to import, so not at the first load
        except ModuleNotFoundError:
            raise MissingPackageError("unicorn", "relocatable") from None
        self._core = CORES[name]
        self._mode = LoadMode.COPY if mode == "copy" else LoadMode.XIP
        self._counts = mode == "counted"
        self._runtime: Runtime | None = None
        self._handle: Handle = 0
        self._report = NetworkReport("", (), (), (), 0)

    def prepare(self) -> None:
        """Have the emulator do its late imports."""
        import_module("unicorn.unicorn_py3.arch.arm")

    def load(self, model: bytes, arena_bytes: int, /) -> TensorLayout:
        """Install an image; ModelError for one that this core cannot run."""
        if not is_image(model):
            raise ModelError(
                "no relocatable image: it does not begin with NBIN; make one with aisrv-flash reloc build"
            )
        try:
            Image.from_bytes(model)  # to its last byte, which a flash does not tell
        except ImageError as error:
            raise ModelError(str(error)) from error
        flash = Memory(FLASH_BASE, len(model))
        flash.write(FLASH_BASE, model)
        return self._install(flash, 0, arena_bytes)

    def load_in_place(self, memory: mmap.mmap, offset: int, arena_bytes: int, /) -> TensorLayout:
        """Install the image at an offset of the core's flash, which is only read. Raises ModelError."""
        return self._install(Memory.of(FLASH_BASE, memory), offset, arena_bytes)

    def forget_code(self) -> None:
        self._loaded().machine(self._handle).forget_code()

    def _install(self, flash: Memory, offset: int, arena_bytes: int) -> TensorLayout:
        try:
            self._create(flash, FLASH_BASE + offset, arena_bytes)
        except MachineError as error:
            raise ModelError(f"the machine: {error}") from error
        except RelocatableError as error:
            raise ModelError(str(error)) from error
        inputs = tuple(tensor.bytes for tensor in self._report.inputs)
        return TensorLayout(inputs, tuple(tensor.bytes for tensor in self._report.outputs))

    def _create(self, flash: Memory, obj: int, arena_bytes: int) -> None:
        image = image_at(flash, obj)
        sizes, activations = image.sizes, image.context.activations_size
        needed = sizes.xip if self._mode is LoadMode.XIP else sizes.copy
        if needed + activations > arena_bytes:
            raise ModelError(
                f"the image needs {needed:,} bytes for its instance and {activations:,} for activations, "
                f"the arena has {arena_bytes:,}",
                LoadResult.TENSORS_DO_NOT_FIT,
            )
        weights = self._missing_weights(flash, obj, image)
        runtime = Runtime(
            self._core,
            flash=flash,
            ram_bytes=needed + activations + 2 * PAGE,
            seconds=None,  # the worker has a limit for each run
        )
        info = runtime.rt_get_info(obj)
        handle = runtime.load_and_create(obj, 0, 0, self._mode)
        if not runtime.init(handle, weights or info.weights, runtime.malloc(activations)):
            raise ModelError(f"the image's init failed: {runtime.fault(handle) or runtime.get_error(handle)}")
        self._report = runtime.get_report(handle)
        self._runtime, self._handle = runtime, handle

    def _missing_weights(self, flash: Memory, obj: int, image: Image) -> int:
        """Return the address of the weights that are not in the image; 0 if all are."""
        if not image.missing_weights:
            return 0
        at = FLASH_BASE + weights_place(obj - FLASH_BASE + image.sizes.file)
        if not flash.holds(at, image.missing_weights):
            raise ModelError(
                "the image has no weights: they are in a file of their own; build it without --split, or "
                "pack both for one engine and load them from flash"
            )
        return at

    def set_input(self, number: int, data: memoryview) -> None:
        self._loaded().write_tensor(self._handle, self._report.inputs[number], data)

    def invoke(self) -> None:
        """Run the image once; InvokeError if its code goes astray, after which it runs no more."""
        if not self._counts:
            self._run(self._loaded())
            return
        counters = self._count(COUNTED_LINES)
        is_cut = counters.hits + counters.misses >= COUNTED_LINES
        rest = "; the rest of the run was not counted, aisrv-flash reloc fetches counts all of it"
        _tell(counters, rest if is_cut else "")

    def invoke_counted(self) -> int:
        """Do as `invoke`, slower; return the lines that the run filled of the cache before the flash."""
        counters = self._count()
        if self._counts:
            _tell(counters)
        return counters.misses

    def _count(self, most: int | None = None) -> CacheCounters:
        runtime = self._loaded()
        with fetch_counters(runtime, self._handle, most=most) as counters:
            self._run(runtime)
        return counters

    def _run(self, runtime: Runtime) -> None:
        try:
            done = runtime.invoke(self._handle)
        except RelocatableError as error:
            raise InvokeError(str(error)) from error
        if not done:
            raise InvokeError(f"the image's run failed: {runtime.get_error(self._handle)}")

    def get_input(self, number: int, into: memoryview) -> None:
        into[:] = self._loaded().tensor(self._handle, self._report.inputs[number])

    def get_output(self, number: int, into: memoryview) -> None:
        into[:] = self._loaded().tensor(self._handle, self._report.outputs[number])

    def _loaded(self) -> Runtime:
        if self._runtime is None:
            raise InvokeError("no model is loaded")
        return self._runtime


def _tell(counters: CacheCounters, rest: str = "") -> None:
    """Print what was counted: what a worker prints goes to the debug log."""
    print(f"execute in place: {counters}{rest}", flush=True)
