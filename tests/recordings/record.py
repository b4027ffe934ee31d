"""Make the recordings `pipelined.pcapng`, `descriptors.pcapng` and `ioserver.pcapng` anew, of this device."""

import subprocess
import sys
from array import array
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from aisrv import digits
from host_tools.standins.pyusb_backend import get_backend
from host_tools.transports.transport import Request
from host_tools.transports.usbip.transport import open_usbip
from tests.support.peers.ioserver_host import IoserverHost

HERE = Path(__file__).parent


@contextmanager
def device(recording: str, *options: str) -> Iterator[str]:
    """A device whose USB traffic is recorded, with its address."""
    command = [sys.executable, "-m", "aisrv", "run", "--port", "0", "--pcap", str(HERE / recording), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip().rpartition("usbip:")[2]
        process.terminate()


def pipelined() -> None:
    """A model and an inference, with several requests in flight, and one that is taken back."""
    with device("pipelined.pcapng") as address:
        transport = open_usbip(address)
        for command, data in (
            (0x87, digits.model_bytes()),
            (0x83, digits.test_images()[0].image),
            (0x84, b""),
        ):
            end = [b""] if data and len(data) % 512 == 0 else []
            transport.exchange([bytes((command, 0, 0)), data, *end], 0, 20)
        for command in (0x10, 0x01, 0x08, 0x05, 0x09, 0x0F):
            transport.exchange([bytes((command, 0, 0))], 16384, 20)
        # Three reads that wait before the commands come, and one that is taken back.
        reads = [transport.start(Request(0x81, room=512), 20) for _ in range(3)]
        for command in (0x10, 0x08, 0x15):
            transport.start(Request(0x01, bytes((command, 0, 0))), 20).finish()
        for read in reads:
            read.finish()
        transport.start(Request(0x81, room=512), 20).withdraw()
        transport.exchange([bytes((0x10, 0, 0))], 512, 20)
        transport.close()


def descriptors() -> None:
    """Every standard request that a host's system makes, one that is refused, and a serial number."""
    with device("descriptors.pcapng", "--serial", "LAB-7") as address:
        (found,) = get_backend(address).enumerate_devices()
        backend = get_backend(address)
        handle = backend.open_device(found)

        def get(request: int, value: int, index: int, length: int, kind: int = 0x80) -> None:
            backend.ctrl_transfer(handle, kind, request, value, index, array("B", bytes(length)), 1000)

        backend.set_configuration(handle, 1)
        for value, length in ((0x100, 8), (0x100, 18), (0x200, 9), (0x200, 255), (0x600, 10), (0x700, 32)):
            get(6, value, 0, length)
        for string in range(5):
            get(6, 0x300 | string, 0x409 if string else 0, 255)
        get(8, 0, 0, 1)
        get(0, 0, 0, 2)
        get(0, 0, 0x81, 2, 0x82)
        with suppress(OSError):
            get(6, 0x3EE, 0, 18)
        backend.claim_interface(handle, 0)
        backend.bulk_write(handle, 0x01, 0, array("B", b"\x10\0\0"), 1000)
        backend.bulk_read(handle, 0x81, 0, array("B", bytes(512)), 1000)
        backend.close_device(handle)


def ioserver() -> None:
    """Two inferences by a host of the ioserver protocol."""
    model = HERE.parents[1] / "aisrv/digits/digits.tflite"
    with device("ioserver.pcapng", "--protocol", "ioserver", "--model", str(model)) as address:
        host = IoserverHost(get_backend(address))
        for digit in digits.test_images()[:2]:
            host.run(digit.image)
        host.close()


def main() -> None:
    makers: tuple[Callable[[], Any], ...] = (pipelined, descriptors, ioserver)
    for make in makers:
        make()


if __name__ == "__main__":
    main()
