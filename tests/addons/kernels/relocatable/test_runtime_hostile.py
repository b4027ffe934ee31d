"""Hostile images by the thousand: no crash, no hang, and not a byte written outside of their own RAM.

Each is the digits' image with some words or bits changed; half of the changes are in the header, the list of
addresses and the initial data, half in the code. An instance of the unchanged image lives beside them all.
"""

import random
from typing import Any

import pytest

from aisrv import digits
from aisrv.addons.kernels.relocatable.machine import Machine
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, RAM_BASE
from aisrv.addons.kernels.relocatable.runtime import LoadMode, Runtime
from aisrv.model.relocatable.errors import Cause, RuntimeFailure
from tests.support.amounts import in_ci, some
from tests.support.models.hostile_images import changed_image
from tests.support.models.networks import run as run_tflite
from tests.support.models.relocatable import digits_image

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")

PICTURE = digits.test_images()[0].image
IMAGES_A_SEED = in_ci(250, every_day=120)
SECONDS = 0.05
"""A call of an image's code is stopped after so long."""
CALLS_AN_IMAGE = 8
BAD = FLASH_BASE + 0x20000


@pytest.mark.in_full
@pytest.mark.parametrize("seed", some(range(12), every_day=1))
def test_hostile_images(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """None hangs: each takes few calls of its code, and each call is bounded."""
    calls = 0

    def call(machine: Machine, *arguments: Any, **options: Any) -> int:
        nonlocal calls
        calls += 1
        return plain_call(machine, *arguments, **options)

    plain_call = Machine.call
    monkeypatch.setattr(Machine, "call", call)
    rng = random.Random(seed)
    expected = run_tflite(digits.model_bytes(), PICTURE)[0]
    runtime = Runtime(ram_bytes=1 << 18, flash_bytes=1 << 18, seconds=SECONDS)
    runtime.write_flash(FLASH_BASE, digits_image())
    info = runtime.rt_get_info(FLASH_BASE)
    good = runtime.load_and_create(FLASH_BASE, 0, 0, LoadMode.XIP)
    activations = runtime.malloc(info.acts_sz)
    assert runtime.init(good, info.weights, activations)
    mine = activations + 4096 - RAM_BASE
    output = bytearray(10)
    assert runtime.run(good, [PICTURE], [output]) == 1
    before = runtime.ram.read(RAM_BASE, mine)
    refused = ran = 0
    for _ in range(IMAGES_A_SEED):
        image = bytes(changed_image(rng))
        runtime.write_flash(BAD, image)
        calls = 0
        try:
            handle = runtime.load_and_create(BAD, 0, 0, rng.choice(list(LoadMode)))
        except RuntimeFailure as failure:
            assert failure.cause in (Cause.INVALID_BIN, Cause.MEMORY, Cause.NOT_SUPPORTED)  # noqa: PT017
            refused += 1
        else:
            bad = runtime.rt_get_info(BAD)
            size = min(bad.acts_sz, 1 << 16)
            block = runtime.malloc(size)
            if runtime.init(handle, bad.weights, block):
                ran += runtime.run(handle, [PICTURE], [bytearray(10)]) in (0, 1)
            runtime.get_error(handle)
            runtime.destroy(handle)
            runtime.free(block, size)
        assert calls <= CALLS_AN_IMAGE
        assert runtime.flash.read(BAD, len(image)) == image
        assert runtime.ram.read(RAM_BASE, mine) == before
    assert refused > IMAGES_A_SEED // 10
    assert ran > IMAGES_A_SEED // 10
    assert runtime.flash.read(FLASH_BASE, len(digits_image())) == digits_image()
    assert runtime.run(good, [PICTURE], [output]) == 1
    assert bytes(output) == expected
