"""The SPI layer before a real engine with a real model, beside a USB host that uses the same engine."""

import pytest
from trio.testing import wait_all_tasks_blocked

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.device.device import Device
from aisrv.model.reader import read_model
from aisrv.protocol.commands import Spec
from tests.support.benches import spi_master as spi
from tests.support.benches.spi_master import spi_and_usb
from tests.support.models import networks

MODEL = digits.model_bytes()
IMAGES = digits.test_images()
OPERATORS = len(read_model(MODEL).operators)


async def usb_set(device: Device, command: int, data: bytes = b"") -> None:
    """A SET in the classic framing, which a USB host's next command finds done."""
    host = InProcessHost(device.usb)
    await host.plug_in()
    await host.write(bytes((command, 0, 0)))
    await host.write(data, zero_packet=True)


async def usb_get(device: Device, command: int) -> bytes:
    host = InProcessHost(device.usb)
    await host.plug_in()
    await host.write(bytes((command, 0, 0)))
    return await host.read(4096)


@pytest.mark.plain_time("its master does not wait until a run is done")
@pytest.mark.parametrize("command", [spi.SET_ARENA, spi.SET_EXT], ids=hex)
async def test_every_digit_gives_the_bytes_of_the_interpreter_called_directly(command: int) -> None:
    async with spi_and_usb() as (master, _):
        assert await master.set(command, MODEL) == 0
        for image, _ in IMAGES[:10]:
            assert await master.set(spi.SET_INPUT, image) == 0
            await master.write(spi.START_INFER)
            assert await master.status() == 0
            assert await master.read(spi.GET_OUTPUT, 10) == networks.run(MODEL, image)[0]
        timings = await master.read(spi.GET_TIMINGS, 4 * OPERATORS + 4)
        ticks = [int.from_bytes(timings[i : i + 4], "little") for i in range(0, len(timings), 4)]
        assert all(ticks[:-1])
        assert ticks[-1] == 0


@pytest.mark.parametrize("size", [4096, 4096 + 16, 4096 + 496, 5120])
async def test_models_of_whole_and_odd_blocks_load(size: int) -> None:
    async with spi_and_usb() as (master, _):
        assert await master.set(spi.SET_ARENA, networks.big_network(size)) == 0
        assert Spec.from_bytes(await master.read(spi.GET_SPEC, 24)).input_bytes == networks.BIG_INPUT_BYTES


async def test_input_of_another_size_is_refused_and_a_padded_one_is_taken() -> None:
    model = networks.two_input_add_network(13)
    async with spi_and_usb() as (master, _):
        await master.set(spi.SET_ARENA, model)
        assert await master.set(spi.SET_INPUT, bytes(range(12))) == spi.BAD_CMD
        assert await master.set(spi.SET_INPUT, bytes(range(16))) == 0
        await master.write(spi.START_INFER)
        assert await master.read(spi.GET_OUTPUT, 13) == bytes(range(13))


async def test_model_set_over_spi_is_seen_over_usb() -> None:
    async with spi_and_usb() as (master, device):
        await master.set(spi.SET_ARENA, MODEL)
        await master.set(spi.SET_INPUT, IMAGES[0].image)
        await master.write(spi.START_INFER)
        assert await usb_get(device, spi.GET_OUTPUT) == networks.run(MODEL, IMAGES[0].image)[0]


async def test_model_set_over_usb_is_seen_over_spi() -> None:
    async with spi_and_usb() as (master, device):
        await master.set(spi.SET_ARENA, networks.two_input_add_network())
        await master.write(spi.START_INFER)
        await usb_set(device, spi.SET_ARENA, MODEL)
        await wait_all_tasks_blocked()
        assert Spec.from_bytes(await master.read(spi.GET_SPEC, 24)).timing_count == OPERATORS
        assert await master.read(spi.GET_TIMINGS, 4 * OPERATORS) == bytes(4 * OPERATORS)
        assert await master.set(spi.SET_INPUT, IMAGES[1].image) == 0
        await master.write(spi.START_INFER)
        assert await master.read(spi.GET_OUTPUT, 10) == networks.run(MODEL, IMAGES[1].image)[0]


async def test_models_that_both_set_in_turn_are_seen_at_once() -> None:
    other = networks.two_input_add_network()
    async with spi_and_usb() as (master, device):
        for _ in range(3):
            await usb_set(device, spi.SET_ARENA, other)
            await wait_all_tasks_blocked()
            assert Spec.from_bytes(await master.read(spi.GET_SPEC, 24)).input_bytes == 32
            assert await master.set(spi.SET_ARENA, MODEL) == 0
            assert Spec.from_bytes(await master.read(spi.GET_SPEC, 24)).input_bytes == 64


async def test_inference_that_waited_for_another_clients_model_has_its_results() -> None:
    async with spi_and_usb() as (master, device):
        host = InProcessHost(device.usb)
        await host.plug_in()
        await host.write(bytes((spi.SET_ARENA, 0, 0)))
        await host.write(MODEL[:512])
        await master.write(spi.START_INFER)
        await host.write(MODEL[512:], zero_packet=True)
        await wait_all_tasks_blocked()
        assert await master.status() == 0
        assert await master.read(spi.GET_OUTPUT, 10) == networks.run(MODEL, bytes(64))[0]


async def test_busy_stays_while_the_engine_takes_a_model_of_another_client() -> None:
    async with spi_and_usb() as (master, device):
        host = InProcessHost(device.usb)
        await host.plug_in()
        await host.write(bytes((spi.SET_ARENA, 0, 0)))
        await host.write(MODEL[:512])  # the rest is to come: the engine waits for it
        await master.write(spi.START_INFER)
        for _ in range(3):
            assert await master.status() == spi.BUSY
        await host.write(MODEL[512:], zero_packet=True)
        await wait_all_tasks_blocked()
        assert await master.status() == 0
