"""USB_StandardRequests in C against endpoint 0 in Python: random SETUP packets, answer for answer."""

from random import Random

import pytest
import trio

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.board.toml_file import read_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.usb_descriptors import SetupPacket, StandardRequest
from phy.usb.bus import ControlUrb, UsbBus
from phy.usb.ep0 import HANDLERS, answer
from phy.usb.urb import TransferStatus
from tests.support.amounts import amount
from tests.support.benches.c_programs import kept_programs, need_compiler
from tests.support.benches.device_time import on_virtual_time
from tests.support.paths import ROOT

__all__ = ["kept_programs"]

REQUESTS = (*range(13), 0x20, 255)
INDEXES = (0, 0, 1, 2, 0x80, 0x81, 0x82, 0x8F, 0x0409, 0xFFFF)
DESCRIPTORS = (0x0100, 0x0200, 0x0300, 0x0301, 0x0302, 0x0303, 0x0600, 0x0700, 0x0701)
VALUES = (0, 0, 1, 1, 2, 127, 128, *DESCRIPTORS, 0xFFFF)
RECOVERY_SECONDS = 0.002
"""After SET_ADDRESS, until the device answers at its new address: USB 2.0, section 9.2.6.3."""
LENGTHS = (0, 1, 2, 4, 8, 9, 17, 18, 63, 64, 255, 0xFFFF)


def any_setup(random: Random) -> SetupPacket:
    """Most are near to something that there is. None has data to the device, which it may refuse or not."""
    if random.random() < 0.6:
        request_type, request = random.choice(list(HANDLERS))
    else:
        request_type = random.choice((0x00, 0x80)) | random.choice((0, 1, 2, 3, 0x20, 0x40))
        request = random.choice(REQUESTS)
    length = random.choice(LENGTHS) if request_type & 0x80 else 0
    return SetupPacket(request_type, request, random.choice(VALUES), random.choice(INDEXES), length)


def expected(bus: UsbBus, setup: SetupPacket) -> tuple[TransferStatus, bytes]:
    """What endpoint 0 in Python answers."""
    ended: list[tuple[TransferStatus, bytes]] = []
    answer(bus, ControlUrb(setup, b"", lambda *end: ended.append(end)))
    return ended[0]


async def asked(host: InProcessHost, setup: SetupPacket) -> tuple[TransferStatus, bytes]:
    try:
        return TransferStatus.OKAY, await host.control(setup)
    except TransferFailed as failure:
        return failure.status, b""


@pytest.mark.in_full
@pytest.mark.usefixtures("kept_programs")
def test_every_answer_is_that_of_endpoint_0_in_python() -> None:
    need_compiler()
    random = Random(1)
    statuses = set()

    async def main() -> None:
        board = read_board(ROOT / "examples/firmware/loopback.toml")
        async with open_device(board, runner=inline) as device:
            model = UsbBus(device.usb.descriptors)
            host = InProcessHost(device.usb)
            for number in range(amount(50_000, every_day=1_000)):
                if number % 200 == 0:
                    model.reset()
                    device.usb.reset()
                setup = any_setup(random)
                wanted = expected(model, setup)
                with trio.fail_after(1):
                    assert (setup, await asked(host, setup)) == (setup, wanted)
                statuses.add((wanted[0], bool(wanted[1]), setup.request))
                if setup.request == StandardRequest.SET_ADDRESS:
                    await trio.sleep(RECOVERY_SECONDS)  # the address is taken after the status
                assert (device.usb.address, device.usb.configuration) == (model.address, model.configuration)

    on_virtual_time(main)
    answered = {request for status, _, request in statuses if status is TransferStatus.OKAY}
    assert answered == {0, 1, 3, 5, 6, 8, 9, 10, 11}
