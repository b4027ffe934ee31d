"""A host program as people write them for the hardware: pyusb, the system's libusb, nothing of ours.

Prints lines of a name and JSON, with a tab between. Arguments: what to do, and a directory with `model` and
`image`.
"""

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path

import usb.core
import usb.util

GET_STATUS, GET_OUTPUT, GET_ID, SET_INPUT, START_INFER, SET_MODEL_EXT = 0x01, 0x05, 0x10, 0x83, 0x84, 0x87
OUT, IN = 0x01, 0x81


def say(name: str, value: object) -> None:
    print(name, json.dumps(value), sep="\t", flush=True)


def get(device: usb.core.Device, command: int, length: int = 512) -> str:
    device.write(OUT, bytes((command, 0, 0)))
    return bytes(device.read(IN, length)).hex()


def put(device: usb.core.Device, command: int, data: bytes) -> int:
    device.write(OUT, bytes((command, 0, 0)))
    written: int = device.write(OUT, data)
    if written and written % 512 == 0:
        device.write(OUT, b"")
    return written


def failure(call: Callable[[], object]) -> list[object]:
    try:
        call()
    except usb.core.USBError as error:
        return [type(error).__name__, error.errno]
    return ["nothing", 0]


def everything(device: usb.core.Device, job: Path) -> None:
    model, image = (job / "model").read_bytes(), (job / "image").read_bytes()
    say("id", get(device, GET_ID))

    started = time.monotonic()
    say("time-out", failure(lambda: device.read(IN, 512, timeout=300)))
    say("time-out seconds", time.monotonic() - started)
    say("id after time-out", get(device, GET_ID))

    put(device, START_INFER, b"")  # without a model
    say("stall in", failure(lambda: device.read(IN, 512)))
    say("stall out", failure(lambda: device.write(OUT, bytes((GET_ID, 0, 0)))))
    device.clear_halt(OUT)
    device.clear_halt(IN)
    say("id after stall", get(device, GET_ID))
    say("status after stall", get(device, GET_STATUS))

    say("written", put(device, SET_MODEL_EXT, model.ljust(4 << 20, b"\0")))
    say("status of model", get(device, GET_STATUS))
    put(device, SET_INPUT, image)
    put(device, START_INFER, b"")
    say("output", get(device, GET_OUTPUT))

    device.write(OUT, bytes((SET_INPUT, 0, 0)))  # the data never come
    device.reset()
    say("id after reset", get(device, GET_ID))
    put(device, START_INFER, b"")
    say("output after reset", get(device, GET_OUTPUT))


def wait(device: usb.core.Device, _job: Path) -> None:
    """Stay in the middle of a model, with a read pending."""
    device.write(OUT, bytes((SET_MODEL_EXT, 0, 0)))
    device.write(OUT, bytes(1024))
    say("reading", True)
    say("read", failure(lambda: device.read(IN, 512)))


def again(device: usb.core.Device, _job: Path) -> None:
    say("id", get(device, GET_ID))


def main() -> None:
    device = usb.core.find(product="xAISRV")
    if device is None:
        sys.exit("no device with product xAISRV")
    job = Path(sys.argv[2])
    device.default_timeout = int(float((job / "seconds").read_text()) * 1000)  # as long as all of a step
    device.set_configuration()
    {"everything": everything, "wait": wait, "again": again}[sys.argv[1]](device, job)


main()
