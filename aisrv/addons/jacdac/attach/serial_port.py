"""A Jacdac bus on a serial port: JDUSB on a pseudo-terminal."""

import logging
import os
from typing import Final, NoReturn

import trio

from aisrv.addons.jacdac.bus.bus import JacdacBus
from aisrv.addons.jacdac.bus.jdusb import Bridge, encode
from aisrv.listeners.failures import Failures

logger = logging.getLogger(__name__)

CHUNK: Final = 1024
"""Bytes that are taken in one turn."""


async def serve_serial_port(
    bus: JacdacBus, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> NoReturn:
    """Serve a pseudo-terminal until cancelled; ready with the path that programs open.

    A program may close and open it again. One that does not read loses frames, and nobody else does.
    """
    import tty  # where there are pseudo-terminals

    master, slave = os.openpty()
    try:
        tty.setraw(slave)
        os.set_blocking(master, False)
        task_status.started(os.ttyname(slave))
        with Failures(logger) as failures:
            with failures.contain("the Jacdac serial port"):
                await _serve(bus, master)
            await trio.sleep_forever()
    finally:
        os.close(master)
        os.close(slave)
    raise AssertionError("serving ends by cancellation alone")


async def _serve(bus: JacdacBus, master: int) -> None:
    peer = bus.join("serial port")
    bridge = Bridge()
    lock = trio.Lock()

    async def write(data: bytes) -> None:
        async with lock:
            while data:
                try:
                    data = data[os.write(master, data) :]
                except BlockingIOError:
                    await trio.lowlevel.wait_writable(master)

    async def send() -> None:
        while True:
            frames = await peer.receive()
            if bridge.enabled:
                await write(b"".join(map(encode, frames)))

    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(send)
            while True:
                await trio.lowlevel.wait_readable(master)
                try:
                    data = os.read(master, CHUNK)
                except BlockingIOError:
                    continue
                frames, answers = bridge.feed(data)
                for frame in frames:
                    peer.send(frame)
                if answers:
                    await write(answers)
    finally:
        peer.leave()
