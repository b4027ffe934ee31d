"""The preload server: dynamically linked libusb and spidev programs reach devices, without root or a module.

    async with trio.open_nursery() as nursery:
        preload = await nursery.start(partial(serve_preload, spi=[port]), [device.usb])
        await trio.run_process(["lsusb"], env=preload.environment())

The program runs with umockdev's preload library, which sends its calls on the emulated nodes here. Not for
programs that are statically linked, that do not use glibc, or that are setuid, and not for Go. Source: "Ways
for a host program to reach the virtual device", section Preload server.
"""

import errno
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import trio

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.attach.preload.node_socket import NodeSocket
from aisrv.attach.preload.root_hub import MOST_DEVICES, RootHub, configure
from aisrv.attach.preload.spidev import SpidevService, add_spidevs
from aisrv.attach.preload.stream import PreloadStream
from aisrv.attach.preload.tree import LONGEST_PATH, PreloadTree, tree_parent
from aisrv.attach.preload.trial import SPI_TRIAL, USB_TRIAL, PreloadError, try_library
from aisrv.attach.preload.usbfs import UsbfsError
from aisrv.attach.preload.usbfs_ioctls import Call, configuration_of, ioctl
from aisrv.attach.preload.usbfs_node import UsbfsFile, UsbfsNode
from aisrv.attach.preload.wire import LIBRARY, Command, Message, WireError
from aisrv.attach.spidev.file import SpidevNode
from aisrv.listeners.failures import Failures
from aisrv.listeners.stream_server import closing_connection
from aisrv.values.private_directory import private_directory
from phy.spi.bus import SpiPort
from phy.usb.bus import HostPort

logger = logging.getLogger(__name__)

_DIRECTORY_VARIABLE: Final = "UMOCKDEV_DIR"
_PRELOAD_VARIABLE: Final = "LD_PRELOAD"


class Preload:
    """Devices for programs in this environment, with the emulated system in `directory`."""

    def __init__(
        self, directory: Path, nodes: Sequence[UsbfsNode], spidevs: Sequence[SpidevNode] = ()
    ) -> None:
        self.directory: Final = directory
        self.nodes: Final = nodes
        """The device of each port, which is a new one when it is plugged in again."""
        self.spidevs: Final = tuple(spidevs)

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return the environment for a program that shall see the devices, based on `base`."""
        preloaded = base.get(_PRELOAD_VARIABLE, "").replace(":", " ").split()
        libraries = [LIBRARY, *(name for name in preloaded if name != LIBRARY)]
        return {
            **base,
            _PRELOAD_VARIABLE: ":".join(libraries),
            _DIRECTORY_VARIABLE: str(self.directory),
        }


async def serve_preload(
    ports: Sequence[HostPort],
    *,
    spi: Sequence[SpiPort] = (),
    task_status: trio.TaskStatus[Preload] = trio.TASK_STATUS_IGNORED,
) -> NoReturn:
    """Plug devices into an emulated bus and serve programs until cancelled; ready once a trial program was.

    Each slave of `spi` is at a bus of its own: the first is `/dev/spidev0.0`, the next `/dev/spidev1.0`.

    Raises PreloadMissingError without the library, PreloadError if its trial fails or the devices are more
    than MOST_DEVICES, OSError if the directory cannot be made. `task_status` gets the `Preload`.
    """
    if len(ports) > MOST_DEVICES:
        raise PreloadError(f"{len(ports)} devices, but preload's bus has room for {MOST_DEVICES}")
    with private_directory(LONGEST_PATH, tree_parent()) as directory:
        await _serve_directory(directory, ports, spi, task_status)


async def _serve_directory(
    directory: Path, ports: Sequence[HostPort], spi: Sequence[SpiPort], task_status: trio.TaskStatus[Preload]
) -> NoReturn:
    tree = PreloadTree(directory)
    failure: PreloadError | None = None
    spidevs = [SpidevNode(port, f"spidev{bus}.0") for bus, port in enumerate(spi)]
    if spidevs:
        add_spidevs(tree, [each.name for each in spidevs])
    with Failures(logger) as failures:
        async with trio.open_nursery() as nursery:
            hub = RootHub(tree, ports, partial(_serve_device, failures), nursery)
            if ports:
                await hub.start()
            for spidev in spidevs:
                serve = partial(_contained, failures, spidev.name, SpidevService(spidev).serve)
                nursery.start_soon(NodeSocket(tree.socket_of(spidev.name)).serve, serve)
            nursery.start_soon(NodeSocket(tree.default_socket).serve, _serve_others)
            preload = Preload(directory, hub.nodes, spidevs)
            try:
                trial = USB_TRIAL if ports else SPI_TRIAL
                await try_library(LIBRARY, trial, preload.environment())
            except PreloadError as error:
                failure = error
                nursery.cancel_scope.cancel()
            else:
                task_status.started(preload)
    assert failure is not None, "listeners never end"  # noqa: S101
    raise failure


async def _serve_device(failures: Failures, node: UsbfsNode, stream: trio.SocketStream) -> None:
    await _contained(failures, f"device {node.device_number}", partial(_serve_stream, node), stream)


async def _contained(
    failures: Failures,
    name: str,
    serve: Callable[[trio.SocketStream], Awaitable[None]],
    stream: trio.SocketStream,
) -> None:
    """Serve a program; an unexpected error ends this connection alone."""
    with failures.contain(f"a preload client's connection to {name}"):
        await serve(stream)


async def _serve_others(stream: trio.SocketStream) -> None:
    """Hold the connection for a file that is not one of ours.

    The library calls for it only if the file could not be opened and the program goes on regardless.
    """
    async with closing_connection(stream, "preload client of another file", WireError, logger):
        others = PreloadStream(stream)
        while await others.next_call() is not None:
            await others.run()


async def _serve_stream(node: UsbfsNode, stream: trio.SocketStream) -> None:
    file = node.open()
    try:
        async with closing_connection(
            stream, f"preload client of device {node.device_number}", WireError, logger
        ):
            if len(node.files) == 1 and not node.unplugged:
                await _configure_again(node)
            await _serve_calls(PreloadStream(stream), file)
    finally:
        file.close()


async def _configure_again(node: UsbfsNode) -> None:
    """Configure a device that the host of another attachment unplugged."""
    with suppress(TransferFailed):
        if await configuration_of(InProcessHost(node.port)):
            return
    if not node.unplugged:
        await configure(node.port, f"device {node.device_number}")


async def _serve_calls(stream: PreloadStream, file: UsbfsFile) -> None:
    while (message := await stream.next_call()) is not None:
        try:
            result = await _answer(stream, file, message)
        except UsbfsError as error:
            await stream.done(-1, error.errno)
        else:
            await stream.done(result)


async def _answer(stream: PreloadStream, file: UsbfsFile, message: Message) -> int:
    if message.command == Command.IOCTL:
        return await ioctl(Call(stream, file, message.second), message.first)
    if message.command == Command.READ:
        data = file.read(message.second)
        stream.write_memory(message.first, data)
        return len(data)
    if message.command == Command.WRITE:
        raise UsbfsError(errno.EINVAL)  # usbfs nodes take no writes
    raise WireError(f"command {message.command} is unknown")
