"""The state of a device: bytes at its ports are those of hosts and masters, not of channels."""

from aisrv.addons.web.device.device_view import DeviceView
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command


async def test_bytes_over_usb_each_way() -> None:
    async with open_device(runner=inline) as device:
        view, host = DeviceView("1-1", device), InProcessHost(device.usb)
        assert view.state(0)["usb"] == [0, 0]
        await host.plug_in()
        assert view.state(0)["usb"] == [0, 0]
        await host.write(bytes((Command.GET_STATUS, 0, 0)))
        assert len(await host.read(64)) == 4
        assert view.state(0)["usb"] == [3, 4]


async def test_bytes_over_spi() -> None:
    async with open_device(runner=inline) as device:
        view = DeviceView("1-1", device)
        assert device.spi is not None
        assert view.state(0)["spi"] == 0
        await device.spi.transfer(bytes(11))
        assert view.state(0)["spi"] == 11


async def test_a_board_without_spi_has_none() -> None:
    async with open_device(Board(spi=None), runner=inline) as device:
        view = DeviceView("1-1", device)
        assert (view.board()["spi"], view.state(0)["spi"]) == (-1, 0)
