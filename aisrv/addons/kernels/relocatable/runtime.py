"""The runtime of relocatable images: the source's calls under their names, without `ai_rel_network_`.

    runtime = Runtime(Core.CORTEX_M4)
    runtime.write_flash(FLASH_BASE, image)
    info = runtime.rt_get_info(FLASH_BASE)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    runtime.init(handle, info.weights, runtime.malloc(info.acts_sz))
    runtime.run(handle, [inputs], [outputs])

Any number of instances of one image or several. Each has a machine of its own, so that code that runs astray
ends its instance alone. Source: "Runtime-loadable model images", sections Install and Executing.
"""

import enum
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from aisrv.addons.kernels.relocatable.machine import OBSERVER, SCRATCH, SCRATCH_BYTES, Machine
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, RAM_BASE, Memory, Span
from aisrv.model.relocatable.container import (
    EXECUTABLE,
    RUNS_IN_PLACE,
    WORD,
    Core,
    Header,
    Image,
    offset,
)
from aisrv.model.relocatable.errors import (
    Cause,
    ErrorCode,
    ErrorType,
    ExecutionFault,
    ImageError,
    NetworkErrorWord,
    RuntimeFailure,
)
from aisrv.model.relocatable.network import (
    BUFFER,
    OBSERVE_AFTER,
    OBSERVE_BEFORE,
    Network,
    NodeInfo,
    NodeReport,
    Report,
    TensorInfo,
)
from aisrv.model.relocatable.network import (
    OBSERVER as OBSERVER_LAYOUT,
)

MIB: Final = 1 << 20
DEFAULT_SECONDS: Final = 10.0

Handle: TypeAlias = int
"""The address of an instance's context; 0 is none."""


class LoadMode(enum.IntEnum):
    """AI_RELOC_RT_LOAD_MODE: in place, or copied to RAM first."""

    XIP = 1
    """Run the code in place."""
    COPY = 2
    """Copy it to RAM first."""


@dataclass(frozen=True, slots=True)
class RelNetworkInfo:
    """Needs of an image; fields have the source's names."""

    c_name: str
    variant: int
    code_sz: int
    """Bytes of code."""
    weights: int
    """Address; 0 if the weights are in a file of their own."""
    weights_sz: int
    """Bytes of weights."""
    acts_sz: int
    """Bytes of activations."""
    rt_ram_xip: int
    """Bytes of RAM in place."""
    rt_ram_copy: int
    """Bytes of RAM for a copy."""


@dataclass(frozen=True, slots=True)
class NetworkReport:
    """Report of an instance."""

    name: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    nodes: tuple[NodeInfo, ...]
    runs: int
    """Runs since it was initialized."""


@dataclass(frozen=True, slots=True)
class NodeEvent:
    """Argument of an observer's callback."""

    index: int
    is_before: bool
    """Whether the node has yet to run."""
    info: NodeInfo
    cookie: int
    """Value from the registration of the observer."""


ObserverCallback: TypeAlias = Callable[[NodeEvent], None]


@dataclass
class _Instance:
    image: Image
    network: Network | None
    """None for an image of somebody else, which describes no tensors here."""
    machine: Machine
    mode: LoadMode
    rom: int
    ram: int
    code: Span
    """Range that runs in place: empty for a copy."""
    spans: list[Span]
    callback: tuple[ObserverCallback, int] | None = None
    error: NetworkErrorWord | None = None
    fault: str = ""
    weights: int = 0
    activations: int = 0


def image_at(flash: Memory, obj: int) -> Image:
    """Return the current image at the address `obj` of the flash. Raises ImageError for none."""
    if obj % WORD:
        raise ImageError(f"the image at {obj:#010x} is not at a multiple of 4")
    if not flash.holds(obj, Header.SIZE):
        raise ImageError(f"there is no image at {obj:#010x}: it is outside of the flash")
    header = Header.from_bytes(flash.read(obj, Header.SIZE))
    size = offset(header.weights_end or header.rel_end)
    if not flash.holds(obj, size):
        field = "weights_end" if header.weights_end else "rel_end"
        raise ImageError(f"{field}: the image at {obj:#010x} has {size} bytes, the flash ends before")
    return Image.from_bytes(flash.read(obj, size))


class Runtime:
    """A board: a core, its flash and RAM, and the instances of the images that it runs.

    It has `flash_bytes` of flash and `ram_bytes` of RAM, and an FPU if `fpu_enabled`. `obj` is the address of
    an image in flash; `address` and `size` are in bytes. An observer's `callback` gets its `cookie`; `flags`
    say before or after, 1 and 2.
    """

    def __init__(
        self,
        core: Core = Core.CORTEX_M4,
        *,
        fpu_enabled: bool = True,
        flash_bytes: int = 2 * MIB,
        ram_bytes: int = MIB,
        seconds: float | None = DEFAULT_SECONDS,
        flash: Memory | None = None,
    ) -> None:
        """Create a board without images; each call of an image's code may take `seconds`, see `Machine`.

        Its flash has `flash_bytes`, or is existing memory, at FLASH_BASE.
        """
        self.core: Final = core
        self.fpu_enabled: Final = fpu_enabled
        self.flash: Final = Memory(FLASH_BASE, flash_bytes) if flash is None else flash
        self.ram: Final = Memory(RAM_BASE, ram_bytes)
        self._seconds = seconds
        self._instances: dict[Handle, _Instance] = {}

    def write_flash(self, address: int, data: bytes | memoryview) -> None:
        """Write `data` to flash, as an update does. Raises RuntimeFailure if code runs there in place."""
        live = self.flash.used(Span(address, address + len(data)))
        if live is not None:
            raise RuntimeFailure(
                f"{len(data)} bytes at {address:#010x}: an instance runs in place from {live.start:#010x} to "
                f"{live.end:#010x}; destroy it first",
                ErrorType.INVALID_STATE,
                ErrorCode.NETWORK,
            )
        self.flash.write(address, data)

    def malloc(self, size: int) -> int:
        """Allocate memory for an instance, activations or weights. Raises RuntimeFailure."""
        at = self.ram.allocate(size)
        if at is None:
            raise RuntimeFailure(
                f"no {size} bytes of RAM are left", ErrorType.INIT_FAILED, ErrorCode.NETWORK_ACTIVATIONS
            )
        return at

    def free(self, address: int, size: int) -> None:
        """Give back what `malloc` gave. Raises RuntimeFailure for anything else. Instances keep theirs."""
        if not self.ram.free(address, size):
            raise RuntimeFailure(
                f"malloc gave no {size} bytes at {address:#010x}",
                ErrorType.INVALID_HANDLE,
                ErrorCode.INVALID_PTR,
            )

    def rt_get_info(self, obj: int) -> RelNetworkInfo:
        """Return the needs of the image at an address of the flash. Raises RuntimeFailure for none."""
        try:
            image = image_at(self.flash, obj)
        except ImageError as error:
            raise RuntimeFailure(str(error), ErrorType.INVALID_HANDLE, ErrorCode.INVALID_PTR) from error
        sizes, context = image.sizes, image.context
        return RelNetworkInfo(
            c_name=image.name,
            variant=image.header.flags,
            code_sz=sizes.ro,
            weights=obj + sizes.file - sizes.weights if sizes.weights else 0,
            weights_sz=sizes.weights or context.weights_size,
            acts_sz=context.activations_size,
            rt_ram_xip=sizes.xip,
            rt_ram_copy=sizes.copy,
        )

    def load_and_create(self, obj: int, ram_addr: int, ram_size: int, mode: int) -> Handle:
        """Install the image at an address of the flash, and create its instance.

        RAM at address 0, or of size 0, comes from the heap. RuntimeFailure with its cause; nothing is written
        then unless the image's own `create` fails. The RAM, `ram_size` bytes, is from `malloc` or anywhere
        else, but not of another instance; `mode` is a `LoadMode`.
        """
        try:
            image = image_at(self.flash, obj)
        except ImageError as error:
            raise _create_failed(str(error), Cause.INVALID_BIN) from error
        self._check_supported(image)
        try:
            chosen = LoadMode(mode)
        except ValueError:
            raise _create_failed(f"unknown mode {mode}", Cause.PARAM) from None
        needed = image.sizes.xip if chosen is LoadMode.XIP else image.sizes.copy
        is_heap = not ram_addr or not ram_size
        if is_heap:
            at = self.ram.find_room(needed)
            if at is None:
                raise _create_failed(f"the heap has no {needed} bytes left", Cause.MEMORY)
            ram_addr, ram_size = at, needed
        self._check_ram(ram_addr, ram_size, needed)
        machine = Machine(
            self.core, has_fpu=self.fpu_enabled and image.variant.uses_fpu, seconds=self._seconds
        )
        machine.map_flash(self.flash)
        block = Span(ram_addr, ram_addr + needed)
        machine.map_ram(self.ram, block, executable=chosen is LoadMode.COPY)
        instance = self._install(image, obj, block, chosen, machine)
        handle = instance.ram + offset(image.header.ctx)
        context = struct.pack(
            "<5I",
            RUNS_IN_PLACE if chosen is LoadMode.XIP else 0,
            handle,
            instance.ram,
            instance.rom,
            ram_addr if is_heap else 0,
        )
        self.ram.write(handle, context)
        self.ram.use(block)
        self._instances[handle] = instance
        if instance.code.end:
            self.flash.use(instance.code)
        try:
            failed = self._call(handle, "create", handle)
        except RuntimeFailure as failure:
            self._forget(handle)
            raise _create_failed(str(failure), Cause.INVALID_BIN) from failure
        if failed:
            self._forget(handle)
            text = f"the image's create failed: {NetworkErrorWord.from_word(failed)}"
            raise _create_failed(text, Cause.INVALID_BIN)
        return handle

    def init(self, handle: Handle, weights: int | Sequence[int], activations: int | Sequence[int]) -> bool:
        """Give an instance its weights and activations: an address of each, or several; return success."""
        instance = self._instances.get(handle)
        if instance is None or instance.fault:
            return False
        addresses = [_addresses(weights), _addresses(activations)]
        image = instance.image
        sizes = (image.sizes.weights or image.context.weights_size, image.context.activations_size)
        for given, size, names in zip(addresses, sizes, _BUFFERS, strict=True):
            for address in given[:1]:
                if size and not self._map(instance, address, size, is_written=names[0] == "activations"):
                    instance.error = NetworkErrorWord(ErrorType.INIT_FAILED, names[1])
                    return False
        pointers = [SCRATCH, SCRATCH + WORD * (len(addresses[0]) + 1)]
        for at, given in zip(pointers, addresses, strict=True):
            instance.machine.write(at, struct.pack(f"<{len(given)}I", *given))
        try:
            return bool(self._call(handle, "init_v2", handle, *pointers))
        except RuntimeFailure:
            return False

    def use_memory(self, handle: Handle, weights: int, activations: int, size: int) -> None:
        """Give an instance of an image without a network weights in flash and `size` bytes of activations.

        Such an image does not say how many it needs. RuntimeFailure if its `init` fails.
        """
        instance = self._live(handle)
        instance.machine.map_ram(self.ram, Span(activations, activations + size))
        instance.activations, instance.weights = activations, weights
        if not self._call(handle, "init", handle, weights, activations):
            raise RuntimeFailure("its init failed", ErrorType.INIT_FAILED, ErrorCode.NETWORK)

    def get_report(self, handle: Handle) -> NetworkReport:
        """Return the report of an instance. Raises RuntimeFailure before its `init`."""
        instance = self._live(handle)
        if not self._call(handle, "report", handle, SCRATCH):
            raise RuntimeFailure(
                "the instance is not initialized", ErrorType.INVALID_STATE, ErrorCode.MISSED_INIT
            )
        report = Report.from_bytes(instance.machine.read(SCRATCH, Report.SIZE))
        network = self._described(instance)
        return NetworkReport(instance.image.name, network.inputs, network.outputs, network.nodes, report.runs)

    def get_error(self, handle: Handle) -> NetworkErrorWord:
        """Return the first error since the last call."""
        instance = self._instances.get(handle)
        if instance is None:
            return NetworkErrorWord(ErrorType.INVALID_HANDLE, ErrorCode.NETWORK)
        if instance.error is not None:
            error, instance.error = instance.error, None
            return error
        try:
            return NetworkErrorWord.from_word(self._call(handle, "error", handle))
        except RuntimeFailure:  # its code went astray, now or before
            return NetworkErrorWord(ErrorType.INVALID_STATE, ErrorCode.NETWORK)

    def fault(self, handle: Handle) -> str:
        """Return how the code of an instance went astray; empty if it did not."""
        instance = self._instances.get(handle)
        return instance.fault if instance else ""

    def run(self, handle: Handle, inputs: Sequence[bytes | None], outputs: Sequence[bytearray | None]) -> int:
        """Run an instance once. Returns 1, or 0 for an error, which `get_error` tells.

        `inputs` and `outputs` have an entry for each tensor; None is for one whose bytes are, or stay, in the
        activations; see `tensor`.
        """
        instance = self._instances.get(handle)
        if instance is None or instance.fault:
            return 0
        network = instance.network
        if network is None:
            return 0
        sets = (
            (network.inputs, inputs, ErrorType.INVALID_INPUT),
            (network.outputs, outputs, ErrorType.INVALID_OUTPUT),
        )
        for tensors, given, error in sets:
            if len(tensors) != len(given) or any(
                data is not None and len(data) != tensor.bytes
                for tensor, data in zip(tensors, given, strict=False)
            ):
                instance.error = NetworkErrorWord(error, ErrorCode.INVALID_PTR)
                return 0
        if instance.activations:
            for number, data in enumerate(inputs):
                if data is not None:
                    self.ram.write(instance.activations + network.inputs[number].place, data)
        try:
            done = self.invoke(handle)
        except RuntimeFailure:
            return 0
        if done:
            for number, into in enumerate(outputs):
                if into is not None:
                    tensor = network.outputs[number]
                    into[:] = self.ram.read(instance.activations + tensor.place, tensor.bytes)
        return done

    def invoke(self, handle: Handle) -> int:
        """Call the image's `run` with all tensors in the activations. Raises RuntimeFailure if it faults."""
        instance = self._live(handle)
        network_tensors = SCRATCH_BYTES // BUFFER.size // 2
        instance.machine.write(SCRATCH, bytes(BUFFER.size * network_tensors))
        return self._call(handle, "run", handle, SCRATCH, SCRATCH)

    def tensor(self, handle: Handle, tensor: TensorInfo) -> memoryview:
        """Return the bytes of an input or output in the activations, read-only."""
        return self.ram.view(self._live(handle).activations + tensor.place, tensor.bytes)

    def write_tensor(self, handle: Handle, tensor: TensorInfo, data: bytes | memoryview) -> None:
        """Write `data`, an input, into the activations."""
        self.ram.write(self._live(handle).activations + tensor.place, data)

    def forward(self, handle: Handle, kernel: int, parameters: bytes) -> None:
        """Run one kernel with parameters of the caller. Raises RuntimeFailure if the image lacks it."""
        instance = self._live(handle)
        instance.machine.write(SCRATCH, parameters)
        if not self._call(handle, "forward", handle, kernel, SCRATCH):
            raise RuntimeFailure(
                f"the image has no kernel {kernel}", ErrorType.INVALID_STATE, ErrorCode.NETWORK
            )

    def destroy(self, handle: Handle) -> Handle:
        """End an instance and free its memory; return 0. A second call is a RuntimeFailure."""
        instance = self._instance(handle)
        try:
            if not instance.fault:
                self._call(handle, "destroy", handle)
        except RuntimeFailure:
            pass  # its memory is freed whatever its code does
        self._forget(handle)
        return 0

    def observer_register(
        self,
        handle: Handle,
        callback: ObserverCallback,
        cookie: int = 0,
        flags: int = OBSERVE_BEFORE | OBSERVE_AFTER,
    ) -> bool:
        """Call `callback` before or after each node."""
        instance = self._live(handle)
        instance.machine.write(SCRATCH, OBSERVER_LAYOUT.pack(OBSERVER | 1, cookie, flags))
        if not self._call(handle, "observer_register", handle, SCRATCH):
            return False
        nodes = self._described(instance).nodes

        def observed(cookie: int, moment: int, address: int) -> None:
            report = NodeReport.from_bytes(instance.machine.read(address, NodeReport.SIZE))
            if report.index < len(nodes):
                callback(NodeEvent(report.index, moment == OBSERVE_BEFORE, nodes[report.index], cookie))

        instance.callback = callback, cookie
        instance.machine.observe(observed)
        return True

    def observer_unregister(self, handle: Handle, callback: ObserverCallback, cookie: int = 0) -> bool:
        """Stop the calls; return False if it was not registered."""
        instance = self._live(handle)
        if instance.callback != (callback, cookie):
            return False
        if not self._call(handle, "observer_unregister", handle, OBSERVER | 1, cookie):
            return False
        instance.callback = None
        instance.machine.observe(None)
        return True

    def observer_node_info(self, handle: Handle, index: int) -> NodeInfo | None:
        """Return the description of a node; None for an unknown one."""
        instance = self._live(handle)
        instance.machine.write(SCRATCH, bytes(NodeReport(index, 0, 0)))
        if not self._call(handle, "observer_node_info", handle, SCRATCH):
            return None
        report = NodeReport.from_bytes(instance.machine.read(SCRATCH, NodeReport.SIZE))
        return NodeInfo.from_bytes(instance.machine.read(report.info, NodeInfo.SIZE))

    def machine(self, handle: Handle) -> Machine:
        """Return the machine of an instance."""
        return self._live(handle).machine

    def _check_supported(self, image: Image) -> None:
        variant = image.variant
        if variant.core is not self.core:
            raise _create_failed(
                f"compiled for {variant.core.label}, this is {self.core.label}", Cause.NOT_SUPPORTED
            )
        if variant.core not in EXECUTABLE:
            raise _create_failed(f"{variant.core.label} cannot be executed here", Cause.NOT_SUPPORTED)
        if variant.uses_fpu and not self.fpu_enabled:
            raise _create_failed("uses the FPU, which is off", Cause.NOT_SUPPORTED)

    def _check_ram(self, address: int, size: int, needed: int) -> None:
        if address % WORD:
            raise _create_failed(f"RAM at {address:#010x} is not at a multiple of 4", Cause.PARAM)
        if size < needed:
            raise _create_failed(f"needs {needed} bytes of RAM, is given {size}", Cause.MEMORY)
        if not self.ram.holds(address, size):
            raise _create_failed(f"{size} bytes at {address:#010x} are not RAM", Cause.PARAM)
        used = self.ram.used(Span(address, address + needed))
        if used is not None:
            raise _create_failed(
                f"RAM at {address:#010x}: an instance has {used.start:#010x} to {used.end:#010x}",
                Cause.MEMORY,
            )

    def _install(self, image: Image, obj: int, block: Span, mode: LoadMode, machine: Machine) -> _Instance:
        sizes, header = image.sizes, image.header
        rom, ram, code = obj, block.start, Span(obj, obj + sizes.file)
        if mode is LoadMode.COPY:
            self.ram.write(ram, image.read_only)
            rom, ram, code = ram, ram + sizes.ro, Span(0, 0)
        self.ram.write(ram, image.initial)
        installed = len(image.initial)
        self.ram.write(ram + installed, bytes(sizes.xip - installed))
        got = range(offset(header.got_start), offset(header.got_end), WORD)
        for place in (*got, *image.relocations):
            (word,) = struct.unpack_from("<I", image.initial, place)
            self.ram.write(ram + place, struct.pack("<I", image.relocated(word, ram, rom)))
        return _Instance(image, _network(image), machine, mode, rom, ram, code, [block])

    def _map(self, instance: _Instance, address: int, size: int, *, is_written: bool) -> bool:
        if not is_written and self.flash.holds(address, size):
            instance.weights = address
            return True
        if address % WORD or not self.ram.holds(address, size):
            return False
        instance.machine.map_ram(self.ram, Span(address, address + size))
        if is_written:
            instance.activations = address
        else:
            instance.weights = address
        return True

    def _described(self, instance: _Instance) -> Network:
        if instance.network is None:
            raise RuntimeFailure(
                "the image does not describe its tensors: it is not one of ours",
                ErrorType.INVALID_STATE,
                ErrorCode.NETWORK,
            )
        return instance.network

    def _instance(self, handle: Handle) -> _Instance:
        instance = self._instances.get(handle)
        if instance is None:
            raise RuntimeFailure(
                f"no instance has the handle {handle:#010x}", ErrorType.INVALID_HANDLE, ErrorCode.NETWORK
            )
        return instance

    def _live(self, handle: Handle) -> _Instance:
        instance = self._instance(handle)
        if instance.fault:
            raise RuntimeFailure(instance.fault, ErrorType.INVALID_STATE, ErrorCode.NETWORK)
        return instance

    def _call(self, handle: Handle, vector: str, *arguments: int) -> int:
        instance = self._live(handle)
        entry = instance.rom + offset(getattr(instance.image.header, vector))
        try:
            return instance.machine.call(entry, instance.ram, arguments)
        except ExecutionFault as error:
            instance.fault = f"{vector}: {error}"
            raise RuntimeFailure(instance.fault, ErrorType.INVALID_STATE, ErrorCode.NETWORK) from error

    def _forget(self, handle: Handle) -> None:
        instance = self._instances.pop(handle)
        for span in instance.spans:
            self.ram.release(span)
        if instance.code.end:
            self.flash.release(instance.code)


_BUFFERS: Final = (("weights", ErrorCode.NETWORK_WEIGHTS), ("activations", ErrorCode.NETWORK_ACTIVATIONS))


def _network(image: Image) -> Network | None:
    try:
        return Network.of(image)
    except ImageError:
        return None


def _addresses(given: int | Sequence[int]) -> tuple[int, ...]:
    return (given,) if isinstance(given, int) else tuple(given)


def _create_failed(text: str, cause: Cause) -> RuntimeFailure:
    return RuntimeFailure(text, ErrorType.CREATE_FAILED, ErrorCode.NETWORK, cause)


__all__ = [
    "OBSERVE_AFTER",
    "OBSERVE_BEFORE",
    "Handle",
    "LoadMode",
    "NetworkReport",
    "NodeEvent",
    "RelNetworkInfo",
    "Runtime",
]
