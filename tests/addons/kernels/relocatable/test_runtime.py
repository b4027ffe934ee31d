"""The runtime: images installed, run, updated and destroyed, in place and copied, and how this fails."""

import random
import struct
from collections.abc import Sequence
from dataclasses import replace

import pytest

from aisrv import digits
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, RAM_BASE
from aisrv.addons.kernels.relocatable.runtime import Handle, LoadMode, NodeEvent, Runtime
from aisrv.model import ModelFileError
from aisrv.model.relocatable.container import Core, Image, offset
from aisrv.model.relocatable.errors import Cause, ErrorCode, ErrorType, NetworkErrorWord, RuntimeFailure
from aisrv.model.relocatable.model import read_loadable
from aisrv.model.relocatable.network import OBSERVE_AFTER, OBSERVE_BEFORE
from tests.support.models.networks import run as run_tflite
from tests.support.models.relocatable import DIGITS_FPU, DIGITS_M33, SEED, digits_image, read, unmap_flash

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")

MODES = list(LoadMode)
PICTURES = [digit.image for digit in digits.test_images()[:8]]
EXPECTED = [run_tflite(digits.model_bytes(), picture)[0] for picture in PICTURES]

ENDLESS = b"\xfe\xe7"
"""b ."""


def board(image: bytes | None = None, at: int = FLASH_BASE, **options: object) -> Runtime:
    """A board with an image in its flash."""
    runtime = Runtime(**options)  # type: ignore[arg-type]
    runtime.write_flash(at, digits_image() if image is None else image)
    return runtime


def create(runtime: Runtime, mode: LoadMode, at: int = FLASH_BASE) -> Handle:
    """An instance that is ready to run, with memory of the heap."""
    info = runtime.rt_get_info(at)
    handle = runtime.load_and_create(at, 0, 0, mode)
    assert runtime.init(handle, info.weights, runtime.malloc(info.acts_sz))
    return handle


def scores(runtime: Runtime, handle: Handle, picture: bytes) -> bytes:
    output = bytearray(digits.CLASSES)
    assert runtime.run(handle, [picture], [output]) == 1, runtime.fault(handle)
    return bytes(output)


def patched(vector: str, code: bytes) -> bytes:
    """The digits' image with other code where one of its vectors leads."""
    image = bytearray(digits_image())
    entry = offset(getattr(Image.from_bytes(image).header, vector)) - 1
    image[entry : entry + len(code)] = code
    return bytes(image)


def refusal(
    runtime: Runtime, ram: int = 0, size: int = 0, mode: int = 1, at: int = FLASH_BASE
) -> Cause | None:
    """Why an image is not installed; nothing may have been written."""
    size_of_ram = runtime.ram.span.end - RAM_BASE
    before = runtime.ram.read(RAM_BASE, size_of_ram)
    with pytest.raises(RuntimeFailure) as caught:
        runtime.load_and_create(at, ram, size, mode)
    assert caught.value.error == NetworkErrorWord(ErrorType.CREATE_FAILED, ErrorCode.NETWORK)
    assert runtime.ram.read(RAM_BASE, size_of_ram) == before
    return caught.value.cause


# Information.


def test_what_an_image_needs() -> None:
    info = board().rt_get_info(FLASH_BASE)
    sizes = Image.from_bytes(digits_image()).sizes
    assert (info.c_name, info.variant, info.acts_sz) == ("digits", 0x20080C24, 1280)
    assert (info.code_sz, info.rt_ram_xip, info.rt_ram_copy) == (sizes.ro, sizes.xip, sizes.xip + sizes.ro)
    assert (info.weights, info.weights_sz) == (FLASH_BASE + len(digits_image()) - 7752, 7752)


def test_an_image_without_its_weights_says_how_many_it_needs() -> None:
    info = board(read(DIGITS_M33)).rt_get_info(FLASH_BASE)
    assert (info.weights, info.weights_sz) == (0, 7752)


@pytest.mark.parametrize("at", [FLASH_BASE + 1, FLASH_BASE + 2, FLASH_BASE + 4, 0, 0xFFFFFFFC])
def test_no_image(at: int) -> None:
    with pytest.raises(RuntimeFailure) as caught:
        board().rt_get_info(at)
    assert caught.value.error == NetworkErrorWord(ErrorType.INVALID_HANDLE, ErrorCode.INVALID_PTR)


# Running.


@pytest.mark.parametrize("mode", MODES)
def test_the_digits_bit_for_bit(mode: LoadMode) -> None:
    runtime = board()
    handle = create(runtime, mode)
    assert [scores(runtime, handle, picture) for picture in PICTURES] == EXPECTED


@pytest.mark.parametrize("mode", MODES)
def test_with_the_fpu_on(mode: LoadMode) -> None:
    runtime = board(read(DIGITS_FPU), core=Core.CORTEX_M7)
    assert scores(runtime, create(runtime, mode), PICTURES[0]) == EXPECTED[0]


@pytest.mark.parametrize("mode", MODES)
def test_with_weights_of_their_own(mode: LoadMode) -> None:
    runtime = board(read(DIGITS_M33), core=Core.CORTEX_M33)
    weights = read(DIGITS_M33.with_suffix(".weights"))
    runtime.write_flash(FLASH_BASE + 0x10000, weights)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, mode)
    assert runtime.init(handle, FLASH_BASE + 0x10000, runtime.malloc(1280))
    assert scores(runtime, handle, PICTURES[0]) == EXPECTED[0]


@pytest.mark.parametrize("seed", range(12))
def test_at_random_addresses(seed: int) -> None:
    rng = random.Random(seed)
    at = FLASH_BASE + 4 * rng.randrange(0x1000)
    runtime = board(at=at)
    info = runtime.rt_get_info(at)
    mode = rng.choice(MODES)
    size = info.rt_ram_copy if mode is LoadMode.COPY else info.rt_ram_xip
    ram, acts = RAM_BASE + 4 * rng.randrange(0x1000), RAM_BASE + 0x8000 + 4 * rng.randrange(0x1000)
    handle = runtime.load_and_create(at, ram, size, mode)
    assert runtime.init(handle, info.weights, acts)
    assert [scores(runtime, handle, picture) for picture in PICTURES] == EXPECTED
    assert runtime.flash.read(at, len(digits_image())) == digits_image()


def seed_sequence(runtime: Runtime, mode: LoadMode) -> tuple[Handle, int, int]:
    """The calls of the source in their order: the instance, its RAM, its activations."""
    info = runtime.rt_get_info(FLASH_BASE)
    size = info.rt_ram_xip if mode is LoadMode.XIP else info.rt_ram_copy
    ram = runtime.malloc(size)
    handle = runtime.load_and_create(FLASH_BASE, ram, size, mode)
    activations = runtime.malloc(info.acts_sz)
    assert runtime.init(handle, info.weights, activations)
    return handle, ram, activations


@pytest.mark.parametrize("mode", MODES)
def test_in_a_block_that_the_caller_allocated(mode: LoadMode) -> None:
    runtime = board()
    handle, ram, _ = seed_sequence(runtime, mode)
    assert [scores(runtime, handle, picture) for picture in PICTURES] == EXPECTED
    heap = struct.unpack("<I", runtime.ram.read(handle + 16, 4))[0]
    assert (heap, ram <= handle < ram + runtime.rt_get_info(FLASH_BASE).rt_ram_copy) == (0, True)


def test_instance_and_activations_in_one_block() -> None:
    runtime = board()
    info = runtime.rt_get_info(FLASH_BASE)
    ram = runtime.malloc(info.rt_ram_xip + info.acts_sz)
    handle = runtime.load_and_create(FLASH_BASE, ram, info.rt_ram_xip, LoadMode.XIP)
    assert runtime.init(handle, info.weights, ram + info.rt_ram_xip)
    assert scores(runtime, handle, PICTURES[0]) == EXPECTED[0]


def test_a_block_stays_the_caller_s_when_its_instance_is_destroyed() -> None:
    runtime = board()
    handle, ram, _ = seed_sequence(runtime, LoadMode.XIP)
    size = runtime.rt_get_info(FLASH_BASE).rt_ram_xip
    assert refusal(runtime, ram, size) is Cause.MEMORY  # an instance has it
    runtime.destroy(handle)
    assert runtime.malloc(size) != ram
    handle = runtime.load_and_create(FLASH_BASE, ram, size, LoadMode.XIP)
    runtime.destroy(handle)
    runtime.free(ram, size)
    assert runtime.malloc(size) == ram


def test_a_block_that_is_freed_under_an_instance_is_not_given_again() -> None:
    runtime = board()
    _, ram, _ = seed_sequence(runtime, LoadMode.XIP)
    size = runtime.rt_get_info(FLASH_BASE).rt_ram_xip
    runtime.free(ram, size)
    assert runtime.malloc(size) != ram


@pytest.mark.parametrize(("beyond", "fewer"), [(4, 0), (0, 4)])
def test_only_what_was_allocated_is_freed(beyond: int, fewer: int) -> None:
    runtime = Runtime()
    ram = runtime.malloc(64)
    with pytest.raises(RuntimeFailure, match="malloc gave no") as caught:
        runtime.free(ram + beyond, 64 - fewer)
    assert caught.value.error.type == ErrorType.INVALID_HANDLE
    assert runtime.malloc(64) != ram


def test_code_in_place_runs_in_flash_alone() -> None:
    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    unmap_flash(runtime, handle)
    assert runtime.run(handle, [PICTURES[0]], [bytearray(10)]) == 0
    assert "faulted" in runtime.fault(handle)


def test_ram_is_not_executable_in_place() -> None:
    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    with pytest.raises(Exception, match="faulted at 0x2"):
        runtime.machine(handle).call(handle & ~0xFFF, 0)


def test_a_copy_runs_without_flash() -> None:
    runtime = board()
    info = runtime.rt_get_info(FLASH_BASE)
    weights = runtime.malloc(info.weights_sz)
    runtime.ram.write(weights, runtime.flash.read(info.weights, info.weights_sz))
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.COPY)
    unmap_flash(runtime, handle)
    assert runtime.init(handle, weights, runtime.malloc(info.acts_sz))
    assert scores(runtime, handle, PICTURES[0]) == EXPECTED[0]


@pytest.mark.parametrize("mode", MODES)
def test_two_instances_share_nothing_but_code(mode: LoadMode) -> None:
    runtime = board()
    info = runtime.rt_get_info(FLASH_BASE)
    first, second = create(runtime, mode), runtime.load_and_create(FLASH_BASE, 0, 0, mode)
    zeros = runtime.malloc(info.weights_sz)
    assert runtime.init(second, zeros, runtime.malloc(info.acts_sz))
    assert scores(runtime, first, PICTURES[0]) == EXPECTED[0]
    nothing = scores(runtime, second, PICTURES[0])
    assert nothing != EXPECTED[0]
    assert [scores(runtime, first, picture) for picture in PICTURES] == EXPECTED
    assert scores(runtime, second, PICTURES[1]) == nothing
    assert (runtime.get_report(first).runs, runtime.get_report(second).runs) == (9, 2)
    assert runtime.flash.read(FLASH_BASE, len(digits_image())) == digits_image()


def test_the_report() -> None:
    runtime = board()
    report = runtime.get_report(create(runtime, LoadMode.XIP))
    (source,), (output,) = report.inputs, report.outputs
    assert (report.name, report.runs) == ("digits", 0)
    assert source.tensor(0).shape == (1, 8, 8, 1)
    assert (output.tensor(0).shape, output.bytes, output.zero_point, output.scale) == (
        (1, 10),
        10,
        -128,
        1 / 256,
    )
    assert [node.multiplications for node in report.nodes] == [9216, 0, 73728, 0, 1280, 0]


# Observers.


def test_an_observer_is_told_of_each_node() -> None:
    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    told: list[NodeEvent] = []
    assert runtime.observer_register(handle, told.append, cookie=7)
    scores(runtime, handle, PICTURES[0])
    assert [(event.index, event.is_before) for event in told] == [
        (i, b) for i in range(6) for b in (True, False)
    ]
    assert {event.cookie for event in told} == {7}


@pytest.mark.parametrize(("flags", "is_before"), [(OBSERVE_BEFORE, True), (OBSERVE_AFTER, False)])
def test_an_observer_of_one_moment(flags: int, is_before: bool) -> None:
    runtime = board()
    handle = create(runtime, LoadMode.COPY)
    told: list[NodeEvent] = []
    runtime.observer_register(handle, told.append, flags=flags)
    scores(runtime, handle, PICTURES[0])
    assert [event.is_before for event in told] == [is_before] * 6


def test_an_observer_that_is_unregistered() -> None:
    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    told: list[NodeEvent] = []
    callback = told.append
    runtime.observer_register(handle, callback, cookie=1)
    assert not runtime.observer_unregister(handle, callback, cookie=2)
    assert runtime.observer_unregister(handle, callback, cookie=1)
    assert not runtime.observer_unregister(handle, callback, cookie=1)
    scores(runtime, handle, PICTURES[0])
    assert told == []


def test_an_observer_s_own_error_comes_through() -> None:
    def callback(_event: NodeEvent) -> None:
        raise KeyError("mine")

    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    runtime.observer_register(handle, callback)
    with pytest.raises(KeyError, match="mine"):
        runtime.run(handle, [PICTURES[0]], [bytearray(10)])


def test_the_description_of_a_node() -> None:
    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    node = runtime.observer_node_info(handle, 2)
    assert node is not None
    assert node.multiplications == 73728
    assert runtime.observer_node_info(handle, 6) is None


# What is refused.


def test_another_core() -> None:
    assert refusal(board(core=Core.CORTEX_M7)) is Cause.NOT_SUPPORTED


def test_a_core_that_cannot_be_executed() -> None:
    image = bytearray(digits_image())
    struct.pack_into("<I", image, 4, 0x20080D22)
    assert refusal(board(bytes(image), core=Core.CORTEX_M55)) is Cause.NOT_SUPPORTED


def test_the_fpu_is_off() -> None:
    runtime = board(read(DIGITS_FPU), core=Core.CORTEX_M7, fpu_enabled=False)
    assert refusal(runtime) is Cause.NOT_SUPPORTED


@pytest.mark.parametrize("mode", [0, 3, -1])
def test_a_mode_that_there_is_not(mode: int) -> None:
    assert refusal(board(), mode=mode) is Cause.PARAM


@pytest.mark.parametrize("mode", MODES)
def test_4_bytes_of_ram_too_few(mode: LoadMode) -> None:
    runtime = board()
    info = runtime.rt_get_info(FLASH_BASE)
    size = info.rt_ram_copy if mode is LoadMode.COPY else info.rt_ram_xip
    assert refusal(runtime, RAM_BASE, size - 4, mode) is Cause.MEMORY
    assert runtime.load_and_create(FLASH_BASE, RAM_BASE, size, mode)


@pytest.mark.parametrize("beyond", [1, 2, 3])
def test_misaligned_ram(beyond: int) -> None:
    assert refusal(board(), RAM_BASE + beyond, 0x4000) is Cause.PARAM


@pytest.mark.parametrize("beyond", [1, 2, 3])
def test_a_misaligned_image(beyond: int) -> None:
    assert refusal(board(at=FLASH_BASE + beyond), at=FLASH_BASE + beyond) is Cause.INVALID_BIN


@pytest.mark.parametrize("at", [0x1000, FLASH_BASE, RAM_BASE - 4, RAM_BASE + (1 << 20) - 4, 0xFFFFFFFC])
def test_ram_that_is_none(at: int) -> None:
    assert refusal(board(), at, 0x4000) is Cause.PARAM


def test_ram_of_another_instance() -> None:
    runtime = board()
    runtime.load_and_create(FLASH_BASE, RAM_BASE, 0x1000, LoadMode.XIP)
    assert refusal(runtime, RAM_BASE + 8, 0x1000) is Cause.MEMORY


def test_a_heap_without_room() -> None:
    assert refusal(board(ram_bytes=4096), mode=LoadMode.COPY) is Cause.MEMORY


def test_more_ram_than_there_is() -> None:
    layout = replace(SEED, bss=1 << 27)
    assert refusal(board(layout.image(), core=Core.CORTEX_M7)) is Cause.MEMORY


def test_an_image_that_goes_on_behind_the_flash() -> None:
    runtime = Runtime(flash_bytes=8192)
    runtime.write_flash(FLASH_BASE, digits_image()[:8192])
    assert refusal(runtime) is Cause.INVALID_BIN


# Errors of an instance.


def test_an_image_of_somebody_else_is_installed_and_does_not_run() -> None:
    image = bytearray(digits_image())
    checked = Image.from_bytes(bytes(image))
    struct.pack_into("<I", image, checked.sizes.ro + offset(checked.header.ctx) + 11 * 4, 0)
    runtime = board(bytes(image))
    handle = create(runtime, LoadMode.XIP)
    assert runtime.run(handle, [PICTURES[0]], [bytearray(digits.CLASSES)]) == 0
    with pytest.raises(RuntimeFailure, match="does not describe its tensors"):
        runtime.get_report(handle)
    with pytest.raises(ModelFileError, match="not one of ours"):
        read_loadable(bytes(image))


def test_of_several_buffers_the_first_count() -> None:
    runtime = board()
    info = runtime.rt_get_info(FLASH_BASE)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    assert runtime.init(handle, [info.weights, 4], [runtime.malloc(info.acts_sz), 8])
    assert scores(runtime, handle, PICTURES[0]) == EXPECTED[0]


def test_running_before_init() -> None:
    runtime = board()
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    assert runtime.run(handle, [PICTURES[0]], [bytearray(10)]) == 0
    assert runtime.get_error(handle) == NetworkErrorWord(ErrorType.INVALID_STATE, ErrorCode.MISSED_INIT)
    assert runtime.get_error(handle) == NetworkErrorWord(0, 0)


def test_a_report_before_init() -> None:
    runtime = board()
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    with pytest.raises(RuntimeFailure, match="not initialized"):
        runtime.get_report(handle)


@pytest.mark.parametrize(
    ("weights", "activations", "code"),
    [
        (0, RAM_BASE + 0x8000, ErrorCode.NETWORK_WEIGHTS),
        (0xFFFFFFF0, RAM_BASE + 0x8000, ErrorCode.NETWORK_WEIGHTS),
        (FLASH_BASE, 0, ErrorCode.NETWORK_ACTIVATIONS),
        (FLASH_BASE, FLASH_BASE, ErrorCode.NETWORK_ACTIVATIONS),
        (FLASH_BASE, RAM_BASE + 0x8001, ErrorCode.NETWORK_ACTIVATIONS),
    ],
)
def test_buffers_that_are_none(weights: int, activations: int, code: ErrorCode) -> None:
    runtime = board()
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    assert not runtime.init(handle, weights, activations)
    assert runtime.get_error(handle) == NetworkErrorWord(ErrorType.INIT_FAILED, code)


@pytest.mark.parametrize(
    ("inputs", "outputs", "error"),
    [
        ([], [bytearray(10)], ErrorType.INVALID_INPUT),
        ([bytes(63)], [bytearray(10)], ErrorType.INVALID_INPUT),
        ([bytes(64)], [], ErrorType.INVALID_OUTPUT),
        ([bytes(64)], [bytearray(11)], ErrorType.INVALID_OUTPUT),
    ],
)
def test_tensors_of_other_sizes(
    inputs: Sequence[bytes], outputs: Sequence[bytearray], error: ErrorType
) -> None:
    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    assert runtime.run(handle, inputs, outputs) == 0
    assert runtime.get_error(handle) == NetworkErrorWord(error, ErrorCode.INVALID_PTR)
    assert scores(runtime, handle, PICTURES[0]) == EXPECTED[0]


def test_a_handle_that_is_none() -> None:
    runtime = board()
    assert runtime.run(12, [], []) == 0
    assert not runtime.init(12, 0, 0)
    assert runtime.get_error(12) == NetworkErrorWord(ErrorType.INVALID_HANDLE, ErrorCode.NETWORK)


@pytest.mark.parametrize("mode", MODES)
def test_destroyed_twice(mode: LoadMode) -> None:
    runtime = board()
    handle = create(runtime, mode)
    assert runtime.destroy(handle) == 0
    with pytest.raises(RuntimeFailure, match="no instance"):
        runtime.destroy(handle)
    assert runtime.run(handle, [PICTURES[0]], [bytearray(10)]) == 0


def test_memory_comes_back() -> None:
    runtime = board(ram_bytes=16384)
    for _ in range(20):
        runtime.destroy(runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.COPY))
    assert runtime.ram.allocate(16384) == RAM_BASE


# Code that goes astray.


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "code",
    [
        pytest.param(ENDLESS, id="endless"),
        pytest.param(b"\x00\x20\x01\x68", id="reads address 0"),
        pytest.param(b"\x4f\xf0\x00\x40\x01\x60", id="writes RAM of nobody"),
        pytest.param(b"\x00\x20\x00\x47", id="branches to 0"),
        pytest.param(b"\x01\x21\x08\x47", id="branches to 1"),
        pytest.param(b"\x00\xde", id="undefined"),
        pytest.param(b"\x00\xdf", id="svc"),
        pytest.param(b"\x00\xbe", id="bkpt"),
        pytest.param(b"\x30\xbf\xfd\xe7", id="wfi"),
        pytest.param(b"\x00\x20\x85\x46\x01\xb4", id="a stack at 0"),
    ],
)
def test_an_instance_that_goes_astray_dies_alone(code: bytes, mode: LoadMode) -> None:
    runtime = board(seconds=0.2)
    at = FLASH_BASE + 0x20000
    runtime.write_flash(at, patched("run", code))
    good, bad = create(runtime, mode), create(runtime, mode, at)
    assert runtime.run(bad, [PICTURES[0]], [bytearray(10)]) == 0
    assert runtime.fault(bad)
    assert runtime.get_error(bad) == NetworkErrorWord(ErrorType.INVALID_STATE, ErrorCode.NETWORK)
    assert scores(runtime, good, PICTURES[0]) == EXPECTED[0]
    assert runtime.destroy(bad) == 0
    assert scores(runtime, good, PICTURES[1]) == EXPECTED[1]


def test_flash_cannot_be_written_by_code() -> None:
    runtime = board(patched("run", b"\x4f\xf0\x00\x60\x01\x60"))  # str r1, [r0], r0 = 0x08000000
    handle = create(runtime, LoadMode.XIP)
    image = runtime.flash.read(FLASH_BASE, 4096)
    assert runtime.run(handle, [PICTURES[0]], [bytearray(10)]) == 0
    assert "faulted" in runtime.fault(handle)
    assert runtime.flash.read(FLASH_BASE, 4096) == image


def test_the_ram_of_others_cannot_be_written() -> None:
    runtime = board(patched("run", b"\x4f\xf0\x00\x50\x01\x60"))  # str r1, [r0], r0 = 0x20000000
    other = runtime.malloc(4096)
    assert other == RAM_BASE
    handle = create(runtime, LoadMode.COPY)
    assert runtime.run(handle, [PICTURES[0]], [bytearray(10)]) == 0
    assert "faulted" in runtime.fault(handle)
    assert runtime.ram.read(RAM_BASE, 4096) == bytes(4096)


@pytest.mark.parametrize("code", [ENDLESS, b"\x01\x20\x70\x47"])
def test_a_create_that_fails_leaves_no_instance(code: bytes) -> None:
    runtime = board(patched("create", code), seconds=0.2)
    with pytest.raises(RuntimeFailure) as caught:
        runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    assert caught.value.error.type == ErrorType.CREATE_FAILED
    runtime.write_flash(FLASH_BASE, digits_image())
    assert scores(runtime, create(runtime, LoadMode.XIP), PICTURES[0]) == EXPECTED[0]


# Updates.


def test_live_code_is_not_overwritten() -> None:
    runtime = board()
    handle = create(runtime, LoadMode.XIP)
    for at, data in ((FLASH_BASE, b"\0"), (FLASH_BASE + len(digits_image()) - 1, b"\0\0")):
        with pytest.raises(RuntimeFailure, match="runs in place"):
            runtime.write_flash(at, data)
    assert runtime.flash.read(FLASH_BASE, len(digits_image())) == digits_image()
    runtime.destroy(handle)
    runtime.write_flash(FLASH_BASE, b"\0")


def test_the_old_image_serves_while_a_new_one_is_written() -> None:
    runtime = board(patched("create", b"\x00\x20\x70\x47"))
    at = FLASH_BASE + 0x20000
    old = create(runtime, LoadMode.XIP)
    image = digits_image()
    for start in range(0, len(image), 1024):
        runtime.write_flash(at + start, image[start : start + 1024])
        assert scores(runtime, old, PICTURES[0]) == EXPECTED[0]
    new = create(runtime, LoadMode.XIP, at)
    assert scores(runtime, new, PICTURES[0]) == EXPECTED[0]
    runtime.destroy(old)
    runtime.write_flash(FLASH_BASE, bytes(len(image)))
    assert scores(runtime, new, PICTURES[1]) == EXPECTED[1]


def test_a_copy_lets_its_flash_be_overwritten() -> None:
    runtime = board(read(DIGITS_M33), core=Core.CORTEX_M33)
    weights = read(DIGITS_M33.with_suffix(".weights"))
    runtime.write_flash(FLASH_BASE + 0x10000, weights)
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.COPY)
    assert runtime.init(handle, FLASH_BASE + 0x10000, runtime.malloc(1280))
    runtime.write_flash(FLASH_BASE, bytes(8192))
    assert scores(runtime, handle, PICTURES[0]) == EXPECTED[0]
