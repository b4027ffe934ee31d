"""A pyusb host of the ioserver protocol: what XMOS's `IOServer` transfers, in its order, with its time-outs.

docs/reference/ioserver.md lists these transfers.
"""

from typing import Any

import usb.core
import usb.util

PACKET = 512
MOMENT, COMMAND, ANSWER = 1000, 5000, 10_000
"""Time-outs in ms: of most writes, of the command that asks for an output, and of each read."""


class IoserverHost:
    """One host with the device open. Methods raise usb.core.USBError.

    `slack` multiplies the time-outs, for a machine that is busy with other things.
    """

    def __init__(self, backend: Any = None, slack: int = 1) -> None:
        self.moment, self.command, self.answer = (slack * each for each in (MOMENT, COMMAND, ANSWER))
        self.device = usb.core.find(idVendor=0x20B1, product="xAISRV", backend=backend)
        assert self.device is not None, "no device"
        self.device.set_configuration()
        interface = self.device.get_active_configuration()[(0, 0)]
        self.out, self.into = interface.endpoints()
        assert (self.out.bEndpointAddress, self.into.bEndpointAddress) == (0x01, 0x81)

    def write_input(self, data: bytes, tensor: int = 0, model: int = 0) -> None:
        self.out.write(bytes((3, model, tensor)), self.moment)
        self.out.write(data, self.moment)
        if len(data) % PACKET == 0:
            self.out.write(b"", self.moment)

    def infer(self, model: int = 0) -> None:
        self._bare(1, model)

    def reset(self, model: int = 0) -> None:
        self._bare(7, model)

    def read_output(self, tensor: int = 0, model: int = 0) -> bytes:
        self.out.write(bytes((2, model, tensor)), self.command)
        data = b""
        room = usb.util.create_buffer(PACKET)
        while True:
            count: int = self.device.read(self.into, room, self.answer)
            data += bytes(room[:count])
            if count < PACKET:
                return data

    def run(self, data: bytes, model: int = 0) -> bytes:
        self.write_input(data, model=model)
        self.infer(model)
        return self.read_output(model=model)

    def clear(self) -> None:
        self.device.clear_halt(self.out)
        self.device.clear_halt(self.into)

    def close(self) -> None:
        self.device.write(self.out, bytes((8, 0, 0)), self.moment)
        usb.util.dispose_resources(self.device)

    def _bare(self, command: int, model: int) -> None:
        self.out.write(bytes((command, model, 0)), self.moment)
        self.out.write(b"", self.moment)
