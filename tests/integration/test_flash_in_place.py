"""Relocatable images that run in place: from the bytes of the flash segment, which the device protects."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Protocol

import pytest
import trio

from aisrv import digits
from aisrv.addons.jacdac.task.flash_store import ChipStore
from aisrv.addons.kernels.relocatable.fetches import fetch_counters
from aisrv.addons.kernels.relocatable.memory import FLASH_BASE, Memory
from aisrv.addons.kernels.relocatable.runtime import LoadMode, Runtime
from aisrv.board import Board, EngineSpec, FlashSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.engine import Runners
from aisrv.inference.process.inline import inline
from aisrv.inference.process.isolation import isolated
from aisrv.model.relocatable.container import Image, offset
from aisrv.model.relocatable.stored import StoredHeader, stored, with_header
from aisrv.protocol.commands import Command, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.settings.size import Size
from flash_server.chip.part import MX25R3235F
from flash_server.chip.storage import FileStorage
from flash_server.client.cache import CacheCounters
from flash_server.image import DataPartition, EngineImage, Generation
from flash_server.image.headers import Header
from flash_server.protocol import FlashFailure, FlashReadError
from tests.support.benches.device_log import log_of
from tests.support.benches.flash_sectors import SECTOR, overwrite
from tests.support.models import networks
from tests.support.models.relocatable import DIGITS_M33, digits_image, read

pytest.importorskip("unicorn", reason="pip install pyelftools unicorn")

BOOT_BYTES = Size(64 * 1024)
DIGITS = digits_image()
STORED = stored(DIGITS)
SLOT_SECTORS = -(-len(STORED) // SECTOR)
PICTURE = digits.test_images()[0].image
(EXPECTED,) = networks.run(digits.model_bytes(), PICTURE)
RUN = offset(Image.from_bytes(DIGITS).header.run) - 1
"""Where in the image the code of a run begins."""
FAILING_RUN = b"\x00\x20\x70\x47"  # movs r0, #0; bx lr

IN_PLACE = EngineKind("relocatable")
RUNNERS = pytest.mark.parametrize("runner", [inline, isolated])


def data_of(**parts: bytes) -> bytes:
    """A data partition of one engine, its parts at sectors of their own."""
    return DataPartition((EngineImage(**parts),), Generation.FAST, swapped=False, alignment=SECTOR).build()


class Opened(Protocol):
    """Opens a device whose chip holds a data partition."""

    def __call__(
        self, data: bytes, runner: Runners, kind: EngineKind = IN_PLACE, *, arena_bytes: int = 448 * 1024
    ) -> AbstractAsyncContextManager[Device]: ...


@pytest.fixture
def opened(tmp_path: Path) -> Opened:
    """Open devices on a chip's file."""

    @asynccontextmanager
    async def open_one(
        data: bytes, runner: Runners, kind: EngineKind = IN_PLACE, *, arena_bytes: int = 448 * 1024
    ) -> AsyncIterator[Device]:
        path = tmp_path / "chip.bin"
        with FileStorage(path, MX25R3235F.size) as storage:
            for at in range(0, len(data), 1 << 16):
                storage.write(BOOT_BYTES + at, data[at : at + (1 << 16)])
        flash = FlashSpec(MX25R3235F, path=path, boot_bytes=BOOT_BYTES)
        spec = EngineSpec(kind=kind, arena_bytes=arena_bytes)
        async with open_device(Board(engines=(spec,), flashes=(flash,)), runner=runner) as device:
            yield device

    return open_one


async def load(device: Device, command: Command = Command.SET_MODEL_EXT_FLASH) -> Status:
    return await set_command(device.local[0], command)


async def infer(device: Device) -> tuple[Status, bytes]:
    assert await set_command(device.local[0], Command.SET_INPUT_TENSOR, 0, PICTURE) == Status.OKAY
    status = await set_command(device.local[0], Command.START_INFER)
    return status, (await get_command(device.local[0], Command.GET_OUTPUT_TENSOR))[1]


def code_address(segment: int = SECTOR) -> int:
    """The chip's address of the code of a run, for a segment at an offset of the data partition."""
    return BOOT_BYTES + segment + StoredHeader.SIZE + RUN


IN_A_WORKER = pytest.mark.long(
    "another combination runs in a worker every day, and all of them in this process"
)


@pytest.mark.parametrize(
    ("runner", "part", "swapped"),
    [
        *((inline, part, swapped) for part in ("operators", "xip") for swapped in (False, True)),
        (isolated, "xip", True),
        *(
            pytest.param(isolated, *rest, marks=IN_A_WORKER)
            for rest in (("xip", False), ("operators", True), ("operators", False))
        ),
    ],
)
async def test_an_image_runs_from_the_bytes_of_its_segment(
    opened: Opened, runner: Runners, part: str, swapped: bool
) -> None:
    engine = EngineImage(**{part: STORED})
    data = DataPartition((engine,), Generation.FAST, swapped, SECTOR).build()
    async with opened(data, runner) as device:
        assert await load(device) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)


# Weights in a segment of their own.

M33, M33_WEIGHTS = stored(read(DIGITS_M33)), with_header(read(DIGITS_M33.with_suffix(".weights")))
SPLIT_KINDS = "relocatable:cortex-m33", "relocatable:cortex-m33:copy"
SPLIT_PARTS = ("operators", "parameters"), ("xip", "operators")
"""Segments of the code and of the weights."""


@pytest.mark.parametrize(
    ("runner", "kind", "code", "weights"),
    [
        *((inline, kind, *parts) for kind in SPLIT_KINDS for parts in SPLIT_PARTS),
        *((isolated, kind, *SPLIT_PARTS[0]) for kind in SPLIT_KINDS),
        *(pytest.param(isolated, kind, *SPLIT_PARTS[1], marks=IN_A_WORKER) for kind in SPLIT_KINDS),
    ],
)
async def test_an_image_runs_with_the_weights_of_another_segment(
    opened: Opened, runner: Runners, kind: str, code: str, weights: str
) -> None:
    data = data_of(**{code: M33, weights: M33_WEIGHTS})
    async with opened(data, runner, EngineKind.parse(kind)) as device:
        assert await load(device) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)


async def test_weights_in_place_are_not_overwritten_by_the_server(opened: Opened) -> None:
    data = data_of(parameters=M33_WEIGHTS, xip=M33)
    async with opened(data, inline, EngineKind.parse("relocatable:cortex-m33")) as device:
        assert await load(device) == Status.OKAY
        with pytest.raises(FlashReadError) as refusal:
            await device.loaders[0].write_data(SECTOR + len(M33_WEIGHTS) - 1, b"x")
        assert refusal.value.code is FlashFailure.IN_USE
        end = SECTOR + len(M33_WEIGHTS) - 1
        assert f"engine 0 runs code in place from 0x1000 to {end:#x}: write elsewhere" in await log_of(device)


@RUNNERS
async def test_weights_that_a_programmer_overwrites_change_the_next_run(
    opened: Opened, runner: Runners
) -> None:
    data = data_of(parameters=M33_WEIGHTS, xip=M33)
    async with opened(data, runner, EngineKind.parse("relocatable:cortex-m33")) as device:
        assert await load(device) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)
        await overwrite(device.flashes[0], BOOT_BYTES + SECTOR + StoredHeader.SIZE, bytes(2000))
        status, output = await infer(device)
        assert (status, output == EXPECTED) == (Status.OKAY, False)


@pytest.mark.parametrize("kind", SPLIT_KINDS)
async def test_an_image_without_its_weights_is_not_loaded(opened: Opened, kind: str) -> None:
    async with opened(data_of(xip=M33), inline, EngineKind.parse(kind)) as device:
        assert await load(device) == Status.ERROR_MODEL_ERR
        assert "the image's 7752 bytes of weights are not beside it" in await log_of(device)


async def test_the_worker_maps_the_segment_read_only_and_has_no_copy(opened: Opened) -> None:
    async with opened(data_of(xip=STORED), isolated) as device:
        assert await load(device) == Status.OKAY
        loaded = device.engines[0].inference._loaded
        assert loaded is not None
        maps = (await trio.Path(f"/proc/{loaded.runner.pid}/maps").read_text()).splitlines()  # type: ignore[attr-defined]
        assert [line.split()[1] for line in maps if "memfd:aisrv-flash" in line] == ["r--s"]
        assert not [line for line in maps if "memfd:aisrv-model" in line]


async def test_what_a_run_fetches_through_the_cache_is_counted(opened: Opened) -> None:
    async with opened(data_of(xip=STORED), isolated, EngineKind.parse("relocatable::counted")) as device:
        assert await load(device) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)
        assert f"execute in place: {counted_beside_it()}" in await log_of(device)


def counted_beside_it() -> CacheCounters:
    """What a run on the same picture fetches from a flash that begins with the same segment."""
    flash = Memory(FLASH_BASE, len(STORED))
    flash.write(FLASH_BASE, STORED)
    runtime = Runtime(flash=flash)
    obj = FLASH_BASE + StoredHeader.SIZE
    info = runtime.rt_get_info(obj)
    handle = runtime.load_and_create(obj, 0, 0, LoadMode.XIP)
    assert runtime.init(handle, info.weights, runtime.malloc(info.acts_sz))
    runtime.write_tensor(handle, runtime.get_report(handle).inputs[0], PICTURE)
    with fetch_counters(runtime, handle) as counters:
        assert runtime.invoke(handle) == 1
    assert counters.misses > 0
    return counters


@RUNNERS
async def test_a_programmer_that_overwrites_live_code_changes_the_next_run(
    opened: Opened, runner: Runners
) -> None:
    async with opened(data_of(xip=STORED), runner) as device:
        assert await load(device) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)
        code = DIGITS[RUN : RUN + len(FAILING_RUN)]
        await overwrite(device.flashes[0], code_address(), FAILING_RUN)
        assert (await infer(device))[0] == Status.ERROR_INFER_ERR
        assert "the image's run failed" in await log_of(device)
        await overwrite(device.flashes[0], code_address(), code)
        assert await infer(device) == (Status.OKAY, EXPECTED)


@RUNNERS
async def test_a_programmer_that_erases_live_code_ends_that_instance_alone(
    opened: Opened, runner: Runners
) -> None:
    async with opened(data_of(xip=STORED), runner) as device:
        assert await load(device) == Status.OKAY
        chip = device.flashes[0]
        for sector in range(SLOT_SECTORS):
            await chip.write_enable()
            await chip.erase_sector(BOOT_BYTES + SECTOR + sector * SECTOR)
        assert (await infer(device))[0] == Status.ERROR_INFER_ERR
        assert "the code faulted" in await log_of(device)
        assert await load(device) == Status.ERROR_MODEL_ERR
        assert await set_command(device.local[0], Command.SET_MODEL_EXT, 0, DIGITS) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)


async def test_a_worker_that_is_started_anew_runs_what_is_stored_then(opened: Opened) -> None:
    async with opened(data_of(xip=STORED), isolated) as device:
        assert await load(device) == Status.OKAY
        await overwrite(device.flashes[0], code_address(), FAILING_RUN)
        await device.engines[0].inference._loaded.runner.reset_variables()  # type: ignore[union-attr]
        assert (await infer(device))[0] == Status.ERROR_INFER_ERR
        assert "the image's run failed" in await log_of(device)


# The device's own server.


@pytest.mark.parametrize(
    ("start", "size"),
    [
        (SECTOR, 1),
        (SECTOR + len(STORED) - 1, 1),
        (SECTOR - 16, 17),
        (SECTOR * SLOT_SECTORS, 4096),
    ],
)
async def test_the_server_does_not_write_where_code_runs_in_place(
    opened: Opened, start: int, size: int
) -> None:
    async with opened(data_of(xip=STORED), inline) as device:
        assert await load(device) == Status.OKAY
        with pytest.raises(FlashReadError) as refusal:
            await device.loaders[0].write_data(start, bytes(size))
        assert refusal.value.code is FlashFailure.IN_USE
        end = SECTOR + len(STORED) - 1
        assert f"engine 0 runs code in place from 0x1000 to {end:#x}: write elsewhere" in await log_of(device)
        assert await infer(device) == (Status.OKAY, EXPECTED)
        assert await load(device) == Status.OKAY  # the image is still known


@pytest.mark.parametrize("start", [SECTOR - 16, SECTOR + len(STORED)])
async def test_the_server_writes_beside_it(opened: Opened, start: int) -> None:
    async with opened(data_of(xip=STORED), inline) as device:
        assert await load(device) == Status.OKAY
        await device.loaders[0].write_data(start, bytes(16))
        assert await device.loaders[0].read_data(start, 16) == bytes(16)
        assert await infer(device) == (Status.OKAY, EXPECTED)


@pytest.mark.parametrize("kind", ["relocatable::copy", "relocatable"])
async def test_the_server_writes_where_nothing_runs_any_more(opened: Opened, kind: str) -> None:
    async with opened(data_of(xip=STORED), inline, EngineKind.parse(kind)) as device:
        assert await load(device) == Status.OKAY
        if kind == "relocatable":
            assert await set_command(device.local[0], Command.SET_MODEL_EXT, 0, DIGITS) == Status.OKAY
        await device.loaders[0].write_data(SECTOR, bytes(16))
        assert await infer(device) == (Status.OKAY, EXPECTED)


async def test_an_image_that_fails_to_load_holds_nothing(opened: Opened) -> None:
    broken = bytearray(DIGITS)
    broken[4] ^= 0x03  # the part number of another core
    async with opened(data_of(xip=stored_as_is(bytes(broken))), inline) as device:
        assert await load(device) == Status.ERROR_MODEL_ERR
        await device.loaders[0].write_data(SECTOR, bytes(16))


def stored_as_is(image: bytes) -> bytes:
    """What a segment holds of an image that is not sound, with a CRC-32 that is."""
    return bytes(StoredHeader.of(image)) + image


@RUNNERS
async def test_an_update_is_written_to_the_other_slot_while_the_old_image_serves(
    opened: Opened, runner: Runners
) -> None:
    failing = DIGITS[:RUN] + FAILING_RUN + DIGITS[RUN + len(FAILING_RUN) :]
    async with opened(data_of(xip=stored_as_is(failing)), runner) as device:
        assert await load(device) == Status.OKAY
        loader, other = device.loaders[0], SECTOR * (1 + SLOT_SECTORS)
        await loader.write_data(other, STORED)
        assert (await infer(device))[0] == Status.ERROR_INFER_ERR  # the old one serves, as well as it can
        headers = data_of(xip=STORED)[:SECTOR]
        at = headers.index(bytes(Header(xip=SECTOR)))
        updated = headers[:at] + bytes(Header(xip=other)) + headers[at + Header.SIZE :]
        await loader.write_data(0, updated)
        await loader.reload()
        assert await load(device) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)
        await loader.write_data(SECTOR, bytes(16))  # the old slot is free
        with pytest.raises(FlashReadError):
            await loader.write_data(other, bytes(16))


@asynccontextmanager
async def beside_code_in_place(path: Path, alignment: int) -> AsyncIterator[tuple[Device, ChipStore, bytes]]:
    """A device whose engine 1 runs code in place, the store of its models, and the image."""
    engines = EngineImage(model=digits.model_bytes()), EngineImage(xip=STORED)
    data = DataPartition(engines, Generation.FAST, swapped=False, alignment=alignment).build()
    with FileStorage(path, MX25R3235F.size) as storage:
        storage.write(BOOT_BYTES, data)
    flash = FlashSpec(MX25R3235F, path=path, boot_bytes=BOOT_BYTES)
    small = 128 * 1024
    specs = EngineSpec(arena_bytes=small), EngineSpec(arena_bytes=small, kind=IN_PLACE)
    board = Board(engines=specs, flashes=(flash,))
    async with open_device(board, runner=inline) as device:
        assert await set_command(device.local[1], Command.SET_MODEL_EXT_FLASH) == Status.OKAY
        yield device, ChipStore(device.loaders[0], MX25R3235F.size - BOOT_BYTES, 2), data


async def test_a_model_for_another_engine_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    """The old model ends in a sector from which code runs: its bytes there would have to become FF."""
    async with beside_code_in_place(tmp_path / "chip.bin", 16) as (device, store, data):
        with pytest.raises(FlashReadError) as refusal:
            await store.replace_model(0, digits.model_bytes() + bytes(8000))
        assert refusal.value.code is FlashFailure.IN_USE
        assert await device.loaders[0].read_data(0, len(data)) == data


async def test_a_model_for_another_engine_is_stored_beside_code_in_place(tmp_path: Path) -> None:
    async with beside_code_in_place(tmp_path / "chip.bin", SECTOR) as (device, store, data):
        await store.replace_model(0, digits.model_bytes()[::-1])
        start = data.index(STORED)
        assert await device.loaders[0].read_data(start, len(STORED)) == STORED
        stored = await device.loaders[0].read_data(0, 3 * len(data))
        assert digits.model_bytes()[::-1] in stored
        assert digits.model_bytes() not in stored


@pytest.mark.parametrize(
    ("start", "size", "code"),
    [
        (SECTOR, 1, FlashFailure.IN_USE),
        (0, MX25R3235F.size - BOOT_BYTES, FlashFailure.IN_USE),
        (0, MX25R3235F.size - BOOT_BYTES + 1, FlashFailure.OUT_OF_RANGE),
        (SECTOR, 0, None),
        (0, SECTOR, None),
    ],
)
async def test_a_write_can_be_checked_beforehand(
    opened: Opened, start: int, size: int, code: FlashFailure | None
) -> None:
    async with opened(data_of(xip=STORED), inline) as device:
        assert await load(device) == Status.OKAY
        found = None
        try:
            await device.loaders[0].check_write(start, size)
        except FlashReadError as error:
            found = error.code
        assert found is code


async def test_an_image_in_place_takes_none_of_the_memory_for_models(opened: Opened) -> None:
    sizes = Image.from_bytes(DIGITS).sizes
    arena = sizes.xip + Image.from_bytes(DIGITS).context.activations_size
    assert arena < len(DIGITS)
    async with opened(data_of(xip=STORED), inline, arena_bytes=arena) as device:
        assert await load(device, Command.SET_MODEL_ARENA_FLASH) == Status.OKAY
        assert await infer(device) == (Status.OKAY, EXPECTED)
        memory_map = device.engines[0].inference.memory_map
        assert memory_map is not None
        assert memory_map.model.size == 0
