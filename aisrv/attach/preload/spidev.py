"""Spidev nodes for the preload server: their files in the emulated system, and the calls of their programs.

Each slave has a bus of its own: `/dev/spidev0.0`, `/dev/spidev1.0` and so on. Source: "Ways for a host
program to reach the virtual device", section Preload server; the files in `/sys` are those that Linux makes.
"""

import errno
import logging
import os
import select
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import trio

from aisrv.attach.preload.stream import PreloadStream
from aisrv.attach.preload.tree import PreloadTree
from aisrv.attach.preload.wire import Command, Message, WireError
from aisrv.attach.spidev.file import SpidevFile, SpidevNode, check_size
from aisrv.attach.spidev.ioctls import BUFFER_SIZE, Region, SpidevError
from aisrv.listeners.stream_server import closing_connection

logger = logging.getLogger(__name__)

_MAJOR: Final = 153

_REAL_MODULES: Final = Path("/sys/module")

_LOWEST_ADDRESS: Final = 4096
"""Lowest address of a program's memory: the page at address 0 is what a null pointer hits."""

_ADDRESS_LIMIT: Final = 1 << 56
"""End of the addresses that 64-bit processors give to programs."""


def add_spidevs(tree: PreloadTree, names: Sequence[str]) -> None:
    """Add nodes with these names to the emulated system, and the files of their driver."""
    sys = tree.directory / "sys"
    parameters = sys / "module/spidev/parameters"
    _replace_by_own_directory(sys / "module")
    parameters.mkdir(parents=True)
    (parameters / "bufsiz").write_text(f"{BUFFER_SIZE}\n")
    for name in ("class/spidev", "bus/spi/devices", "bus/spi/drivers/spidev"):
        (sys / name).mkdir(parents=True)
    for minor, name in enumerate(names):
        _add_spidev(tree, name, minor)


def _replace_by_own_directory(module: Path) -> None:
    """Replace a link to the machine's `/sys/module` by a directory of links, to which ours can be added."""
    names = os.listdir(_REAL_MODULES) if _REAL_MODULES.exists() else []  # noqa: PTH208 - a hundred names
    module.unlink(missing_ok=True)
    module.mkdir()
    for name in names:
        if name != "spidev":
            os.symlink(f"{_REAL_MODULES}/{name}", f"{module}/{name}")  # noqa: PTH211


def _add_spidev(tree: PreloadTree, name: str, minor: int) -> None:
    tree.add_node(name, _MAJOR, minor).touch(mode=0o666)
    slave = name.replace("spidev", "spi")
    bus = slave.partition(".")[0]
    sys = tree.directory / "sys"
    home = sys / "devices/aisrv" / bus / slave
    files = home / "spidev" / name
    files.mkdir(parents=True)
    (home / "modalias").write_text("spi:aisrv\n")
    (home / "uevent").write_text("DRIVER=spidev\nMODALIAS=spi:aisrv\n")
    (home / "subsystem").symlink_to("../../../../bus/spi")
    (home / "driver").symlink_to("../../../../bus/spi/drivers/spidev")
    (files / "dev").write_text(f"{_MAJOR}:{minor}\n")
    (files / "uevent").write_text(f"MAJOR={_MAJOR}\nMINOR={minor}\nDEVNAME={name}\n")
    (files / "device").symlink_to(f"../../../{slave}")
    (files / "subsystem").symlink_to("../../../../../../class/spidev")
    (sys / "class/spidev" / name).symlink_to(f"../../devices/aisrv/{bus}/{slave}/spidev/{name}")
    (sys / "bus/spi/devices" / slave).symlink_to(f"../../../devices/aisrv/{bus}/{slave}")
    (sys / "bus/spi/drivers/spidev" / slave).symlink_to(f"../../../../devices/aisrv/{bus}/{slave}")


class SpidevService:
    """One node, and the connections of the programs that have it open."""

    def __init__(self, node: SpidevNode) -> None:
        self.node: Final = node
        self._ends: dict[trio.SocketStream, trio.Event] = {}

    async def serve(self, stream: trio.SocketStream) -> None:
        """Serve one program that has opened the node, until it closes it or ends."""
        await self._end_closed()
        self._ends[stream] = trio.Event()
        file = self.node.open()
        try:
            async with closing_connection(stream, f"preload client of {self.node.name}", WireError, logger):
                await _serve_calls(PreloadStream(stream), file)
        finally:
            try:
                await file.close()
            finally:
                self._ends.pop(stream).set()

    async def _end_closed(self) -> None:
        """Wait for the end of connections that are closed already, so that closing comes before opening."""
        poll = select.poll()
        ends = {stream.socket.fileno(): end for stream, end in self._ends.items()}
        gone = [end for fd, end in ends.items() if fd < 0]
        for fd in ends:
            if fd >= 0:
                poll.register(fd, select.POLLRDHUP)
        gone += [ends[fd] for fd, _ in poll.poll(0)]
        for end in gone:
            await end.wait()


async def _serve_calls(stream: PreloadStream, file: SpidevFile) -> None:
    while (message := await stream.next_call()) is not None:
        try:
            result = await _answer(stream, file, message)
        except SpidevError as error:
            await stream.done(-1, error.errno)
        else:
            await stream.done(result)


async def _answer(stream: PreloadStream, file: SpidevFile, message: Message) -> int:
    if message.command == Command.IOCTL:
        return await file.ioctl(message.first, message.second, ClientMemory(stream))
    buffer = Region(message.first, message.second)
    if message.command == Command.READ:
        check_size(buffer.size)
        _check(buffer)
        stream.write_memory(buffer.address, await file.read(buffer.size))
        return buffer.size
    if message.command == Command.WRITE:
        check_size(buffer.size)
        _check(buffer)
        return await file.write(await stream.read_memory(*buffer))
    raise WireError(f"command {message.command} is unknown")


class ClientMemory:
    """The memory of a program, see `UserMemory`, through the socket of one of its files.

    EFAULT for null pointers, and for addresses that no program has; at any other address that is not mapped
    the preload library ends the program.
    """

    def __init__(self, stream: PreloadStream) -> None:
        self._stream = stream

    async def fetch(self, reads: Sequence[Region], writes: Sequence[Region]) -> list[bytes]:
        for region in (*reads, *writes):
            _check(region)
        return await self._stream.read_memories(reads)

    def store(self, region: Region, data: bytes) -> None:
        self._stream.write_memory(region.address, data)


def _check(region: Region) -> None:
    in_user_space = _LOWEST_ADDRESS <= region.address <= _ADDRESS_LIMIT - region.size
    if region.size and not in_user_space:
        raise SpidevError(errno.EFAULT)
