"""A device with a flash chip: models from flash, by command and at boot; server images over SPI."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import trio
import trio.testing

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, EngineSpec, FlashSpec, SpiSpec
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.model.relocatable.stored import stored
from aisrv.protocol.commands import Command, CommandPacket, Dialect, Status
from aisrv.protocol.engine_channel import get_command, set_command
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.settings.size import Size
from flash_server.boot.boot_image import (
    HEADER_BYTES,
    BootReason,
    BootReport,
    Slot,
    build_boot_image,
    build_boot_partition,
)
from flash_server.chip.part import MX25R3235F, MX25R6435F
from flash_server.chip.storage import FileStorage
from flash_server.client.cache import CacheGeometry, WindowError
from flash_server.errors import StorageError
from flash_server.image import DataPartition, EngineImage, Generation
from flash_server.image.headers import Part
from phy.spi.bus import SpiBus
from tests.support.benches.device_log import log_of
from tests.support.models import networks
from tests.support.models.relocatable import digits_image

KIB = 1024
BOOT_BYTES = Size(64 * KIB)
IMAGES = digits.test_images()[:10]
ARENA_FLASH, EXT_FLASH = Command.SET_MODEL_ARENA_FLASH, Command.SET_MODEL_EXT_FLASH
LAYOUTS = [(generation, swapped) for generation in Generation for swapped in (False, True)]


@pytest.fixture
def chip(tmp_path: Path) -> Callable[..., FlashSpec]:
    """Make a chip's file of a boot partition and a data partition."""

    def make(data: bytes = b"", boot: bytes = b"") -> FlashSpec:
        path = tmp_path / "chip.bin"
        with FileStorage(path, MX25R3235F.size) as storage:
            storage.write(0, boot)
            storage.write(BOOT_BYTES, data)
        return FlashSpec(MX25R3235F, path=path, boot_bytes=BOOT_BYTES)

    return make


def image(
    models: Sequence[bytes | None], generation: Generation = Generation.FAST, swapped: bool | None = None
) -> bytes:
    return DataPartition(tuple(EngineImage(model) for model in models), generation, swapped).build()


def board(flash: FlashSpec, *engines: EngineSpec) -> Board:
    return Board(engines=engines or (EngineSpec(),), flashes=(flash,))


async def classify(device: Device, engine: int = 0) -> list[int]:
    found = []
    for picture, _ in IMAGES:
        assert await set_command(device.local[engine], Command.SET_INPUT_TENSOR, 0, picture) == Status.OKAY
        assert await set_command(device.local[engine], Command.START_INFER) == Status.OKAY
        _, scores = await get_command(device.local[engine], Command.GET_OUTPUT_TENSOR)
        found.append(max(range(10), key=memoryview(scores).cast("b").__getitem__))
    return found


def expected_digits() -> list[int]:
    model = digits.model_bytes()
    outputs = [networks.run(model, picture)[0] for picture, _ in IMAGES]
    return [max(range(10), key=memoryview(scores).cast("b").__getitem__) for scores in outputs]


# Models from flash.


@pytest.mark.parametrize(("generation", "swapped"), LAYOUTS)
@pytest.mark.parametrize("command", [ARENA_FLASH, EXT_FLASH])
async def test_model_from_flash_classifies_as_the_interpreter_does(
    chip: Callable[..., FlashSpec], generation: Generation, swapped: bool, command: Command
) -> None:
    flash = chip(image([digits.model_bytes()], generation, swapped))
    async with open_device(board(flash), runner=inline) as device:
        assert await set_command(device.local[0], command) == Status.OKAY
        assert await classify(device) == expected_digits()


@pytest.mark.parametrize("dialect", Dialect)
async def test_model_from_flash_over_usb(chip: Callable[..., FlashSpec], dialect: Dialect) -> None:
    async with open_device(board(chip(image([digits.model_bytes()]))), runner=inline) as device:
        host = InProcessHost(device.usb)
        await host.plug_in()
        await host.write(bytes(CommandPacket(ARENA_FLASH, dialect=dialect)))
        await host.write(b"", zero_packet=True)
        if dialect is Dialect.DESIGN:
            assert await host.read(512) == bytes(4)
        else:
            await host.write(bytes(CommandPacket(Command.GET_ID)))  # waits for the engine
            await host.read(512)
        assert await classify(device) == expected_digits()


async def test_each_engine_reads_its_own_model(chip: Callable[..., FlashSpec]) -> None:
    engines = (EngineSpec(tile=0), EngineSpec(tile=1))
    flash = chip(image([networks.adding_network(), digits.model_bytes()]))
    async with open_device(board(flash, *engines), runner=inline) as device:
        for number in (0, 1):
            assert await set_command(device.local[number], EXT_FLASH) == Status.OKAY
        assert [engine.inference.model is not None for engine in device.engines] == [True, True]
        assert await classify(device, 1) == expected_digits()


async def test_two_engines_on_two_chips(chip: Callable[..., FlashSpec], tmp_path: Path) -> None:
    other = tmp_path / "other.bin"
    with FileStorage(other, MX25R6435F.size) as storage:
        storage.write(0, image([digits.model_bytes()]))
    flashes = (chip(image([networks.adding_network()])), FlashSpec(path=other, boot_bytes=Size(0), tile=1))
    both = Board(engines=(EngineSpec(), EngineSpec(tile=1, flash=1)), flashes=flashes)
    async with open_device(both, runner=inline) as device:
        for number in (0, 1):
            assert await set_command(device.local[number], ARENA_FLASH) == Status.OKAY
        assert await classify(device, 1) == expected_digits()


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "no image"),
        (b"\1\2\xfe\xfd" + bytes(16), "no header names a part"),
        (image([None, b"model"]), "no such segment"),
        (b"\1\2\xfe\xfd" + (1 << 30).to_bytes(4, "little") + bytes(12), "0x40000000"),
    ],
    ids=["erased", "no model", "only of another engine", "offset past the end"],
)
async def test_image_that_gives_no_model(chip: Callable[..., FlashSpec], data: bytes, reason: str) -> None:
    async with open_device(board(chip(data)), runner=inline) as device:
        assert await set_command(device.local[0], ARENA_FLASH) == Status.ERROR_MODEL_ERR
        assert reason in await log_of(device)
        await device.load_model(digits.model_bytes())
        assert await classify(device) == expected_digits()


async def test_model_in_flash_that_is_no_model(chip: Callable[..., FlashSpec]) -> None:
    async with open_device(board(chip(image([bytes(100)]))), runner=inline) as device:
        assert await set_command(device.local[0], EXT_FLASH) == Status.ERROR_MODEL_ERR


async def test_model_in_flash_that_does_not_fit(chip: Callable[..., FlashSpec]) -> None:
    model = digits.model_bytes()
    small = EngineSpec(external_bytes=len(model) - 1)
    async with open_device(board(chip(image([model])), small), runner=inline) as device:
        assert await set_command(device.local[0], EXT_FLASH) == Status.ERROR_MODEL_ERR
        assert (
            f"the model in flash has {len(model)} bytes, there is room for {len(model) - 1}"
            in await log_of(device)
        )


async def test_failed_load_from_flash_leaves_no_model(chip: Callable[..., FlashSpec]) -> None:
    async with open_device(board(chip()), runner=inline) as device:
        await device.load_model(digits.model_bytes())
        assert await set_command(device.local[0], ARENA_FLASH) == Status.ERROR_MODEL_ERR
        assert await set_command(device.local[0], Command.START_INFER) == Status.ERROR_NO_MODEL


async def test_device_without_flash_refuses_the_commands() -> None:
    async with open_device(runner=inline) as device:
        assert await set_command(device.local[0], ARENA_FLASH) == Status.ERROR_BAD_CMD
        assert await log_of(device) == "SET_MODEL_ARENA_FLASH: the engine has no flash\n"


async def test_spec_tells_the_size_of_the_flash(chip: Callable[..., FlashSpec]) -> None:
    async with open_device(board(chip()), runner=inline) as device:
        _, spec = await get_command(device.local[0], Command.GET_SPEC)
        assert int.from_bytes(spec[4:6], "little") == 4096


# Boot.


async def test_engine_boots_its_model_from_flash(chip: Callable[..., FlashSpec]) -> None:
    flash = chip(image([digits.model_bytes()]))
    async with open_device(board(flash, EngineSpec(boot=EXT_FLASH)), runner=inline) as device:
        assert await classify(device) == expected_digits()


async def test_device_without_an_image_boots_all_the_same(chip: Callable[..., FlashSpec]) -> None:
    async with open_device(board(chip(), EngineSpec(boot=ARENA_FLASH)), runner=inline) as device:
        assert await set_command(device.local[0], Command.START_INFER) == Status.ERROR_NO_MODEL
        assert "no image: the first 4132 bytes are FF\n" in await log_of(device)


async def test_chip_of_another_device(chip: Callable[..., FlashSpec]) -> None:
    flash = chip()
    async with open_device(board(flash), runner=inline):
        with pytest.raises(StorageError, match=r"chip\.bin"):
            async with open_device(board(flash), runner=inline):
                pass


# Server images.


FACTORY = build_boot_image(3, b"factory" * 100)


async def boot_report(device: Device) -> BootReport:
    status, report = await get_command(device.local[0], Command.GET_BOOT)
    assert status == Status.OKAY
    return BootReport.from_bytes(report)


async def send_server(bus: SpiBus, image_: bytes) -> int:
    """SET_SERVER as a host sends it; the status at its end."""
    for start in range(0, len(image_) + 1, 512):
        await bus.transfer(b"\x04" + image_[start : start + 512])
        status = 1
        with trio.fail_after(60):
            while status & 1:
                status = (await bus.transfer(b"\x01" + bytes(6)))[3]
    return status


def spi_of(device: Device) -> SpiBus:
    assert device.spi is not None
    return device.spi


@pytest.mark.parametrize("size", [0, 1, 511 - HEADER_BYTES, 512 - HEADER_BYTES, 513 - HEADER_BYTES, 5000])
async def test_upgrade_over_spi_is_booted_at_the_next_reset(
    chip: Callable[..., FlashSpec], size: int
) -> None:
    flash = chip(boot=build_boot_partition(BOOT_BYTES, FACTORY))
    async with open_device(board(flash), runner=inline) as device:
        assert (await boot_report(device)).slot == Slot.FACTORY
        assert await send_server(spi_of(device), build_boot_image(4, bytes(size))) == 0
        assert (await boot_report(device)).slot == Slot.FACTORY  # until the reset
    async with open_device(board(flash), runner=inline) as device:
        report = await boot_report(device)
        assert (report.slot, report.version, report.length) == (Slot.UPGRADE, 4, size)


@pytest.mark.parametrize(
    "bad",
    [
        b"",
        b"no boot image" * 50,
        build_boot_image(9, b"x" * 1000)[:-1],
        build_boot_image(9, b"x" * 1000)[:-1] + b"y",
        build_boot_image(9, bytes(BOOT_BYTES)),
    ],
    ids=["nothing", "not ours", "cut short", "damaged", "too long"],
)
async def test_bad_upgrade_is_refused_and_the_factory_image_boots(
    chip: Callable[..., FlashSpec], bad: bytes
) -> None:
    flash = chip(boot=build_boot_partition(BOOT_BYTES, FACTORY))
    async with open_device(board(flash), runner=inline) as device:
        assert await send_server(spi_of(device), bad) == Status.ERROR_BAD_CMD
        assert "SET_SERVER: " in await log_of(device)
    async with open_device(board(flash), runner=inline) as device:
        assert (await boot_report(device)).slot == Slot.FACTORY


async def test_upgrade_cut_in_the_middle_leaves_the_factory_image(chip: Callable[..., FlashSpec]) -> None:
    flash = chip(boot=build_boot_partition(BOOT_BYTES, FACTORY))
    upgrade = build_boot_image(4, bytes(5000))
    async with open_device(board(flash), runner=inline) as device:
        await spi_of(device).transfer(b"\x04" + upgrade[:512])
        await trio.testing.wait_all_tasks_blocked()
    async with open_device(board(flash), runner=inline) as device:
        report = await boot_report(device)
        assert (report.slot, report.reason) == (Slot.FACTORY, BootReason.NO_UPGRADE)
        assert await send_server(spi_of(device), upgrade) == 0


@pytest.mark.plain_time("it reads before the flash has answered")
async def test_boot_report_over_spi(chip: Callable[..., FlashSpec]) -> None:
    flash = chip(boot=build_boot_partition(BOOT_BYTES, FACTORY))
    async with open_device(board(flash), runner=inline) as device:
        await trio.testing.wait_all_tasks_blocked()
        miso = await spi_of(device).transfer(bytes((Command.GET_BOOT,)) + bytes(22))
        assert BootReport.from_bytes(miso[3:]).version == 3


async def test_boot_report_without_a_flash_is_no_data_and_reads_as_zeros_over_spi() -> None:
    async with open_device(runner=inline) as device:
        await trio.testing.wait_all_tasks_blocked()
        assert await get_command(device.local[0], Command.GET_BOOT) == (Status.OKAY, b"")
        assert await spi_of(device).transfer(bytes((Command.GET_BOOT,)) + bytes(22)) == bytes(23)


async def test_server_image_without_a_flash_is_refused() -> None:
    async with open_device(runner=inline) as device:
        assert await send_server(spi_of(device), build_boot_image(1, b"x")) == Status.ERROR_BAD_CMD


async def test_spi_port_of_another_engine_upgrades_the_same_chip(chip: Callable[..., FlashSpec]) -> None:
    flash = chip()
    both = Board(engines=(EngineSpec(), EngineSpec(tile=1)), flashes=(flash,), spi=SpiSpec(tile=0, engine=1))
    async with open_device(both, runner=inline) as device:
        assert await send_server(spi_of(device), build_boot_image(4, b"new")) == 0
    async with open_device(both, runner=inline) as device:
        assert (await boot_report(device)).reason == BootReason.FACTORY_BROKEN


# Windows.


async def test_window_on_the_xip_segment_counts_as_its_engines_cache_does(
    chip: Callable[..., FlashSpec],
) -> None:
    code = bytes(range(256)) * 4
    parts = DataPartition((EngineImage(xip=code, operators=code[::-1]),)).build()
    engine = EngineSpec(cache=CacheGeometry(size=64, ways=1, line_bytes=16))
    async with open_device(board(chip(parts), engine), runner=inline) as device:
        window = await device.open_window()
        assert [await window.read(address, 4) for address in (0, 4, 64, 0)] == [
            code[address : address + 4] for address in (0, 4, 64, 0)
        ]
        assert (window.counters.hits, window.counters.misses) == (1, 3)  # 64 is in the same line's place as 0
        operators = await device.open_window(part=Part.OPERATORS)
        assert await operators.read(0, 1000) == code[::-1][:1000]


async def test_window_without_a_flash() -> None:
    async with open_device(runner=inline) as device:
        with pytest.raises(WindowError, match="the board has no flash"):
            await device.open_window()


async def test_image_that_an_embedding_program_writes(chip: Callable[..., FlashSpec]) -> None:
    async with open_device(board(chip()), runner=inline) as device:
        await device.loaders[0].write_data(0, image([digits.model_bytes()]))
        await device.loaders[0].reload()
        assert await set_command(device.local[0], EXT_FLASH) == Status.OKAY
        assert await classify(device) == expected_digits()


# Relocatable images.


@pytest.mark.parametrize("part", [Part.OPERATORS, Part.XIP])
@pytest.mark.parametrize("missing", [None, b""])
async def test_device_runs_a_relocatable_image_from_flash(
    chip: Callable[..., FlashSpec], part: Part, missing: bytes | None
) -> None:
    pytest.importorskip("unicorn")
    engine = EngineImage(model=missing, **{part.label: stored(digits_image())})
    flash = chip(DataPartition((engine,), alignment=4).build())
    kind = EngineKind("relocatable")
    async with open_device(board(flash, EngineSpec(kind=kind)), runner=inline) as device:
        assert await set_command(device.local[0], ARENA_FLASH) == Status.OKAY
        assert await classify(device) == expected_digits()


async def test_device_refuses_a_damaged_relocatable_image_in_flash(chip: Callable[..., FlashSpec]) -> None:
    pytest.importorskip("unicorn")
    damaged = bytearray(stored(digits_image()))
    damaged[5000] ^= 1
    flash = chip(DataPartition((EngineImage(operators=bytes(damaged)),), alignment=4).build())
    kind = EngineKind("relocatable")
    async with open_device(board(flash, EngineSpec(kind=kind)), runner=inline) as device:
        assert await set_command(device.local[0], EXT_FLASH) == Status.ERROR_MODEL_ERR
        assert "the stored image is damaged" in await log_of(device)


# A programmer has left.


async def test_a_chip_that_a_programmer_changed_is_read_again(chip: Callable[..., FlashSpec]) -> None:
    async with open_device(board(chip()), runner=inline) as device:
        assert await set_command(device.local[0], EXT_FLASH) == Status.ERROR_MODEL_ERR
        data = image([digits.model_bytes()])
        for at in range(0, len(data), 256):
            await device.flashes[0].write_enable()
            await device.flashes[0].program_page(BOOT_BYTES + at, data[at : at + 256])
        await device.reload_flash()
        assert await set_command(device.local[0], EXT_FLASH) == Status.OKAY
