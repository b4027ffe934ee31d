"""A host program as people write them for the hardware: the package spidev, nothing of ours.

Prints lines of a name and JSON, with a tab between. Bytes are their number and CRC-32.
"""

import json
import sys
from binascii import crc32
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import spidev

SIZES = (0, 1, 3, 4, 511, 512, 513, 1024, 4095, 4096, 4097)


def say(name: str, value: object) -> None:
    print(name, json.dumps(value), sep="\t", flush=True)


def digest(values: object) -> object:
    return [len(values), crc32(bytes(values))] if isinstance(values, list | tuple) else values


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or the name of its error with the errno or message."""
    try:
        return digest(call())
    except OSError as error:
        return [type(error).__name__, error.errno]
    except (TypeError, OverflowError) as error:
        return [type(error).__name__, str(error)]


def pattern(size: int) -> list[int]:
    return [(number * 7 + 3) & 0xFF for number in range(size)]


def setting(device: "spidev.SpiDev", name: str, value: object) -> object:
    """None, or the error of setting an attribute."""
    return outcome(lambda: setattr(device, name, value))


def sizes(device: "spidev.SpiDev") -> None:
    for size in SIZES:
        data = pattern(size)
        say(f"xfer {size}", outcome(lambda: device.xfer(data[:])))  # noqa: B023 - called at once
        say(f"xfer2 {size}", outcome(lambda: device.xfer2(data[:])))  # noqa: B023
        say(f"xfer3 {size}", outcome(lambda: device.xfer3(data[:])))  # noqa: B023
        say(f"readbytes {size}", outcome(lambda: device.readbytes(size)))  # noqa: B023
        say(f"writebytes {size}", outcome(lambda: device.writebytes(data)))  # noqa: B023
        say(f"writebytes2 {size}", outcome(lambda: device.writebytes2(data)))  # noqa: B023
        say(f"writebytes2 buffer {size}", outcome(lambda: device.writebytes2(bytes(data))))  # noqa: B023


def settings(device: "spidev.SpiDev") -> None:
    say("at first", [device.mode, device.bits_per_word, device.max_speed_hz])
    for name in ("cshigh", "no_cs", "lsbfirst", "loop", "threewire"):
        say(f"{name} on", setting(device, name, True))
        say(f"{name} off", setting(device, name, False))
    for bits in (7, 8, 9, 16, 32):
        say(f"bits {bits}", setting(device, "bits_per_word", bits))
    for speed in (0, 1, 1_000_000, 400_000_000):
        say(f"speed {speed}", setting(device, "max_speed_hz", speed))
    say("transfer of 16 bits", outcome(lambda: device.xfer([1, 2], 0, 0, 16)))
    say("transfer of 8 bits", outcome(lambda: device.xfer([1, 2], 0, 0, 8)))
    say("transfer with speed and delay", outcome(lambda: device.xfer2([1, 2, 3], 2_000_000, 5)))
    for mode in (1, 2, 3):
        say(f"mode {mode}", setting(device, "mode", mode))
        say(f"transfer in mode {mode}", device.xfer([1, 2, 3]))
    device.close()
    device.open(0, 0)
    say("at second opening", [device.mode, device.bits_per_word, device.max_speed_hz])
    say("mode 0", setting(device, "mode", 0))
    say("transfer in mode 0", device.xfer((1, 2, 3)))


def main() -> None:
    import spidev  # here, as tests import this module without the package

    device = spidev.SpiDev()
    say("other device", outcome(lambda: device.open(7, 7)))
    say("not open", outcome(lambda: device.xfer([1])))
    device.open(0, 0)
    for name in sys.argv[1:]:
        {"sizes": sizes, "settings": settings}[name](device)
    device.close()
    with spidev.SpiDev(0, 0) as again:
        say("opened again", again.xfer2([0, 0, 0, 0]))


if __name__ == "__main__":
    main()
