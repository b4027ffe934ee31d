"""A preload server with an echoing SPI slave behind it, and host programs on spidev in Python and C."""

import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from aisrv.attach.preload.server import Preload, serve_preload
from aisrv.attach.preload.trial import PreloadMissingError
from aisrv.attach.spidev.file import SpidevNode
from tests.support.benches.spi_echo import EchoSlave
from tests.support.oracles.process_resources import count_descriptors, count_tasks
from tests.support.peers.preloaded_usb import PROGRAM_SECONDS, BareClient, compiled
from tests.support.programs import missing, need_package

HERE = Path(__file__).parent
PROGRAM = HERE / "spidev_program.py"
SOURCE = HERE / "spidev_client.c"


@pytest.fixture(scope="session")
def spidev_client(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program in C."""
    if not Path("/usr/include/linux/spi/spidev.h").exists():
        missing("no headers of the kernel: install the package linux-libc-dev")
    return compiled(SOURCE, tmp_path_factory.mktemp("spidev") / "client")


class PreloadedSpidev:
    """A server under test."""

    def __init__(self, preload: Preload, slave: EchoSlave) -> None:
        self.preload = preload
        self.slave = slave

    @property
    def node(self) -> SpidevNode:
        return self.preload.spidevs[0]

    async def run(self, program: str | Path, *arguments: str) -> list[str]:
        """What a program prints; it must end well and complain of nothing."""
        with trio.fail_after(PROGRAM_SECONDS):
            done = await trio.run_process(
                [os.fspath(program), *arguments],
                env=self.preload.environment(),
                capture_stdout=True,
                capture_stderr=True,
                check=False,
            )
        assert (done.returncode, done.stderr) == (0, b""), done.stdout
        return [line.strip() for line in done.stdout.decode().splitlines()]

    async def report(self, *steps: str) -> dict[str, Any]:
        """What the Python program reports."""
        need_package("spidev", "spidev")
        lines = await self.run(sys.executable, os.fspath(PROGRAM), *steps)
        return {name: json.loads(value) for name, _, value in (line.partition("\t") for line in lines)}

    def start(self, program: Path, *arguments: str) -> "subprocess.Popen[bytes]":
        """Start a program; it is to be killed and waited for."""
        return subprocess.Popen(
            [os.fspath(program), *arguments], env=self.preload.environment(), stdout=subprocess.PIPE
        )

    async def open(self) -> BareClient:
        """A bare client that has opened the node."""
        client = BareClient(
            await trio.open_unix_socket(os.fspath(self.preload.directory / "ioctl/dev/spidev0.0"))
        )
        await wait_all_tasks_blocked()
        return client

    async def unused(self) -> None:
        """Wait until no program has the node open."""
        while self.node.users:
            await wait_all_tasks_blocked(0.001)


@asynccontextmanager
async def spidev_preloaded() -> AsyncIterator[PreloadedSpidev]:
    """Serve an echoing slave by preload. At the end nothing may be left of any client, nor of the server."""
    descriptors = count_descriptors()
    slave = EchoSlave()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(slave.run)
        try:
            preload: Preload = await nursery.start(partial(serve_preload, spi=[slave.bus]), [])
        except PreloadMissingError as error:
            missing(str(error))
        await wait_all_tasks_blocked(0.01)
        assert slave.transfers == [], "the trial program clocked something"
        tasks = count_tasks()
        server = PreloadedSpidev(preload, slave)
        yield server
        await server.unused()
        await wait_all_tasks_blocked(0.01)
        assert count_tasks() == tasks, "a task of a client is left"
        nursery.cancel_scope.cancel()
    assert not preload.directory.exists()
    assert count_descriptors() == descriptors, "a file is left"
