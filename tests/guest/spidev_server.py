"""Runs in the guest: an SPI slave that echoes, served by CUSE until SIGINT."""

import signal

import trio

from aisrv.attach.spidev.cuse import serve_cuse
from tests.support.benches.spi_echo import EchoSlave


async def main() -> None:
    slave = EchoSlave()
    with trio.open_signal_receiver(signal.SIGINT) as signals:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(slave.run)
            await nursery.start(serve_cuse, slave.bus)
            print("ready", flush=True)
            async for _ in signals:
                nursery.cancel_scope.cancel()


trio.run(main)
