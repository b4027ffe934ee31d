"""A UART with both directions, of which either may be missing."""

from typing import Final

import trio

from aisrv.addons.pins.peripherals.uart_receiver import UartReceiver
from aisrv.addons.pins.peripherals.uart_transmitter import UartTransmitter


class Uart:
    """A receiver and a transmitter."""

    def __init__(self, receiver: UartReceiver | None, transmitter: UartTransmitter | None) -> None:
        self.receiver: Final = receiver
        """Receiver of what the device sends; None where it is on no pin."""
        self.transmitter: Final = transmitter
        """Transmitter to the device; None where it is on no pin."""

    async def run(self, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Receive and send until cancelled."""
        async with trio.open_nursery() as nursery:
            for each in (self.receiver, self.transmitter):
                if each is not None:
                    await nursery.start(each.run)
            task_status.started()
