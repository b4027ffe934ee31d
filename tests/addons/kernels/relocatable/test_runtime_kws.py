"""Keyword spotting from MLPerf Tiny as relocatable code: in place, copied, anywhere, its header flipped."""

import functools
import random
import struct

import numpy as np
import pytest

from aisrv.addons.kernels.backends.registry import find_backend
from aisrv.addons.kernels.network.load import load_network
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, RAM_BASE
from aisrv.addons.kernels.relocatable.runtime import Handle, LoadMode, Runtime
from aisrv.model.relocatable.container import Core, Header, Variant
from aisrv.model.relocatable.errors import Cause, RuntimeFailure
from tests.support.amounts import in_ci
from tests.support.models.relocatable import fresh_image, needs_compiler, unmap_flash
from tests.support.peers import mlperf_tiny

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")

SOUND = np.random.default_rng(3).integers(-128, 128, 490, np.int8).tobytes()


@functools.cache
def expected() -> bytes:
    network = load_network(mlperf_tiny.model_bytes("kws_ref_model"), find_backend("numpy"))
    network.inputs[0][:] = memoryview(SOUND).cast("b")
    network.invoke()
    return bytes(network.outputs[0])


def image() -> bytes:
    needs_compiler()
    return fresh_image(mlperf_tiny.model_bytes("kws_ref_model"), Variant(Core.CORTEX_M4))


def scores(runtime: Runtime, handle: Handle) -> bytes:
    output = bytearray(12)
    assert runtime.run(handle, [SOUND], [output]) == 1, runtime.fault(handle)
    return bytes(output)


@pytest.mark.parametrize("mode", list(LoadMode))
def test_two_instances_with_weights_of_their_own(mode: LoadMode) -> None:
    runtime = Runtime()
    runtime.write_flash(FLASH_BASE, image())
    info = runtime.rt_get_info(FLASH_BASE)
    first, second = (runtime.load_and_create(FLASH_BASE, 0, 0, mode) for _ in range(2))
    assert runtime.init(first, info.weights, runtime.malloc(info.acts_sz))
    assert runtime.init(second, runtime.malloc(info.weights_sz), runtime.malloc(info.acts_sz))
    assert scores(runtime, first) == expected()
    assert scores(runtime, second) != expected()
    assert scores(runtime, first) == expected()
    assert (runtime.get_report(first).runs, runtime.get_report(second).runs) == (2, 1)
    assert runtime.flash.read(FLASH_BASE, len(image())) == image()


def test_a_copy_needs_no_flash() -> None:
    runtime = Runtime()
    runtime.write_flash(FLASH_BASE, image())
    info = runtime.rt_get_info(FLASH_BASE)
    weights = runtime.malloc(info.weights_sz)
    runtime.ram.write(weights, runtime.flash.read(info.weights, info.weights_sz))
    handle = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.COPY)
    unmap_flash(runtime, handle)
    assert runtime.init(handle, weights, runtime.malloc(info.acts_sz))
    assert scores(runtime, handle) == expected()


@pytest.mark.parametrize("seed", range(in_ci(6, every_day=3)))
def test_at_random_addresses(seed: int) -> None:
    rng = random.Random(seed)
    at, ram = FLASH_BASE + 4 * rng.randrange(0x4000), RAM_BASE + 4 * rng.randrange(0x4000)
    activations = RAM_BASE + 0x20000 + 4 * rng.randrange(0x4000)
    runtime = Runtime()
    runtime.write_flash(at, image())
    info = runtime.rt_get_info(at)
    mode = rng.choice(list(LoadMode))
    handle = runtime.load_and_create(at, ram, info.rt_ram_copy, mode)
    assert runtime.init(handle, info.weights, activations)
    assert scores(runtime, handle) == expected()


@pytest.mark.parametrize(("name", "at"), [(name, at) for name, at, _ in Header.layout()])
def test_each_field_of_the_header_flipped(name: str, at: int) -> None:
    runtime = Runtime(ram_bytes=1 << 17)
    wrong = bytearray(image())
    (word,) = struct.unpack_from("<I", wrong, at)
    struct.pack_into("<I", wrong, at, word ^ 0xFFFFFFFF)
    runtime.write_flash(FLASH_BASE, bytes(wrong))
    with pytest.raises(RuntimeFailure) as caught:
        runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    assert caught.value.cause is Cause.INVALID_BIN
    assert name == "magic" or name in str(caught.value)
    assert runtime.ram.read(RAM_BASE, 1 << 17) == bytes(1 << 17)
