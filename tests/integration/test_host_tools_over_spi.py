"""`aisrv-host` and the library over SPI, against the device's own SPI slave; USB beside it."""

import json
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio
from click.testing import CliRunner, Result

from aisrv import digits
from aisrv.attach.usbip.server import UsbipServer, export_all
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from host_tools.cli import main
from host_tools.client import AiServer
from host_tools.errors import BadCommandError, ModelError, NoModelError
from host_tools.standins.spidev import SpiDev
from phy.spi.bus import SpiPort
from tests.support.models import networks
from tests.support.peers.spi_link_slaves import served_from

IMAGES = digits.test_images()[:8]
EXPECTED = [networks.run(digits.model_bytes(), image)[0] for image, _ in IMAGES]


class Addresses:
    spi = ""
    usb = ""


@pytest.fixture
def device() -> Iterator[Addresses]:
    """A device with an SPI slave and a USB port before the same engine, in a thread of its own."""
    addresses = Addresses()

    @asynccontextmanager
    async def opened() -> AsyncIterator[Mapping[str, SpiPort]]:
        async with open_device(runner=inline) as device, trio.open_nursery() as nursery:
            assert device.spi is not None
            host, port = await nursery.start(UsbipServer(export_all([device.usb])).serve, "127.0.0.1", 0)
            addresses.usb = f"usbip:{host}:{port}"
            yield {"0.0": device.spi}
            nursery.cancel_scope.cancel()

    with served_from(opened) as address:
        addresses.spi = f"spi:0.0@{address}"
        yield addresses


@pytest.fixture
def image(tmp_path: Path) -> Path:
    path = tmp_path / "image.bin"
    path.write_bytes(IMAGES[0].image)
    return path


def call(device: str, *arguments: object) -> Result:
    return CliRunner().invoke(main, ["--device", device, *map(str, arguments)])


def done(device: str, *arguments: object) -> Any:
    result = call(device, "--json", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    return json.loads(result.stdout)


# The library


def test_inferences_give_what_the_interpreter_gives(device: Addresses) -> None:
    with AiServer.open(device.spi) as server:
        server.load_model(digits.model_bytes())
        assert [server.run(image) for image, _ in IMAGES[:5]] == EXPECTED[:5]
        server.write_input(IMAGES[5].image)
        server.infer()
        assert server.read_output() == EXPECTED[5]
        assert len(server.timings()) == server.spec().timing_count == 6
        assert all(server.timings())


def test_without_a_model_and_after_a_bad_one(device: Addresses) -> None:
    with AiServer.open(device.spi) as server:
        with pytest.raises(NoModelError):
            server.infer()
        with pytest.raises(ModelError, match="its log ends with: "):
            server.load_model(b"\x1c\0\0\0TFL3" + bytes(600), force=True)
        with pytest.raises(NoModelError):
            server.read_output()
        server.load_model(digits.model_bytes(), "ext")
        with pytest.raises(BadCommandError):
            server.write_input(bytes(63))
        assert server.run(IMAGES[0].image) == EXPECTED[0]


def test_interrupted_load_and_another(device: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    with AiServer.open(device.spi) as server:

        def interrupt(done: int, _: int) -> None:
            raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            server.load_model(digits.model_bytes() + bytes(16 * 1024), progress=interrupt)
        server.load_model(digits.model_bytes())
        assert server.run(IMAGES[0].image) == EXPECTED[0]


def test_host_that_left_in_the_middle_of_a_load(device: Addresses) -> None:
    """The next host's load ends the previous one: nothing of it is left."""
    with AiServer.open(device.spi) as server, pytest.raises(ZeroDivisionError):
        server.load_model(bytes(16 * 1024), progress=lambda done, total: 1 // 0, force=True)
    with AiServer.open(device.spi) as server:
        server.load_model(digits.model_bytes(), "ext")
        assert server.run(IMAGES[0].image) == EXPECTED[0]


def test_two_spi_hosts_take_turns(device: Addresses) -> None:
    with AiServer.open(device.spi) as first, AiServer.open(device.spi) as second:
        first.load_model(digits.model_bytes())
        assert [second.run(IMAGES[0].image), first.run(IMAGES[1].image)] == EXPECTED[:2]


def test_through_the_module_spidev(device: Addresses, monkeypatch: pytest.MonkeyPatch) -> None:
    module: Any = ModuleType("spidev")
    module.SpiDev = SpiDev
    monkeypatch.setitem(sys.modules, "spidev", module)
    monkeypatch.setenv("AISRV_SPI", device.spi.partition("@")[2])
    with AiServer.open("spi:0.0") as server:
        server.load_model(digits.model_bytes())
        assert server.run(IMAGES[0].image) == EXPECTED[0]


# The command


def test_info(device: Addresses, digits_file: Path) -> None:
    assert done(device.spi, "info")["spec"]["input_bytes"] == 0
    done(device.spi, "load", digits_file)
    info = done(device.spi, "info")
    assert (info["id"], info["status"]) == (0x12345678, [])
    assert (info["spec"]["input_bytes"], info["spec"]["output_bytes"], info["spec"]["timing_count"]) == (
        64,
        10,
        6,
    )


def test_infer_loads_the_model_and_shows_the_digit(device: Addresses, digits_file: Path, image: Path) -> None:
    answer = done(device.spi, "infer", image, "--model", digits_file)
    assert answer["top"][0]["index"] == IMAGES[0].label


def test_list(device: Addresses) -> None:
    assert [one["address"] for one in done(device.spi, "list")] == [device.spi]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["gpio"], "GET_OUTPUT_GPIO_EN cannot be sent over SPI, only over USB"),
        (["gpio", "enable"], "SET_OUTPUT_GPIO_EN cannot be sent over SPI"),
        (["read", "1"], "tensor 1 cannot be named over SPI"),
        (["read", "0", "--input"], "GET_INPUT_TENSOR cannot be sent over SPI"),
    ],
)
def test_what_spi_lacks(device: Addresses, arguments: list[str], text: str) -> None:
    result = call(device.spi, *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert text in result.stderr
    assert result.stderr.count("\n") == 1


def test_another_engine(device: Addresses) -> None:
    result = CliRunner().invoke(main, ["--device", device.spi, "--engine", "1", "info"])
    assert result.exit_code == 2
    assert "engine 1 cannot be named over SPI" in result.stderr
