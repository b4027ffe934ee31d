"""A device on a clock that jumps: the same answers, at no cost of real time, and nothing drifts."""

import pytest
import trio
from trio.testing import MockClock

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from tests.support.models import networks


@pytest.mark.plain_time("only its own waits take time")
def test_a_device_runs_on_virtual_time() -> None:
    async def main() -> float:
        async with open_device(runner=inline) as device:
            host = InProcessHost(device.usb)
            await host.plug_in()
            await device.load_model(digits.model_bytes())
            for image, _ in digits.test_images()[:5]:
                await trio.sleep(3600)
                await host.write(b"\x83\0\0")
                await host.write(image)
                await host.write(b"\x84\0\0")
                await host.write(b"")
                await host.write(b"\x05\0\0")
                assert await host.read(512) == networks.run(digits.model_bytes(), image)[0]
        return trio.current_time()

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == 5 * 3600


@pytest.mark.plain_time("only its own waits take time")
def test_a_host_gives_up_a_read_after_its_timeout() -> None:
    async def main() -> float:
        async with open_device(runner=inline) as device:
            host = InProcessHost(device.usb)
            await host.plug_in()
            with trio.move_on_after(2.5):
                await host.read(512)
            assert device.usb.in_endpoint.pending == 0
        return trio.current_time()

    assert trio.run(main, clock=MockClock(autojump_threshold=0)) == 2.5
