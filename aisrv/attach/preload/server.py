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
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NoReturn

import trio

from aisrv.attach.inprocess import InProcessHost, TransferFailed
from aisrv.attach.preload.spidev import SpidevService, add_spidevs
from aisrv.attach.preload.stream import PreloadStream
from aisrv.attach.preload.tree import LONGEST_PATH, PreloadTree, ReadyFifo, tree_parent, usb_node
from aisrv.attach.preload.trial import FIRST_DEVICE, SPI_TRIAL, USB_TRIAL, PreloadError, try_library
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

MOST_DEVICES: Final = 126
"""Capacity of a bus besides its root hub."""

BACKLOG: Final = 128
_DIRECTORY_VARIABLE: Final = "UMOCKDEV_DIR"
_PRELOAD_VARIABLE: Final = "LD_PRELOAD"


class Preload:
    """Devices for programs in this environment, with the emulated system in `directory`."""

    def __init__(
        self, directory: Path, nodes: Sequence[UsbfsNode], spidevs: Sequence[SpidevNode] = ()
    ) -> None:
        self.directory: Final = directory
        self.nodes: Final = tuple(nodes)
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
    fifos: list[ReadyFifo] = []
    failure: PreloadError | None = None
    try:
        nodes = []
        if ports:
            tree.add_root_hub(len(ports))
        for number, port in enumerate(ports, FIRST_DEVICE):
            fifos.append(tree.add(number, port.descriptors))
            on_claim = partial(tree.set_claimed, number, port.descriptors.configuration.value)
            nodes.append(UsbfsNode(port, number, fifos[-1].set_ready, on_claim))
            await _plug_in(nodes[-1])
        spidevs = [SpidevNode(port, f"spidev{bus}.0") for bus, port in enumerate(spi)]
        if spidevs:
            add_spidevs(tree, [each.name for each in spidevs])
        preload = Preload(directory, nodes, spidevs)
        with Failures(logger) as failures:
            async with trio.open_nursery() as nursery:
                for spidev in spidevs:
                    listener = _listen(tree.socket_of(spidev.name))
                    serve = partial(_contained, failures, spidev.name, SpidevService(spidev).serve)
                    nursery.start_soon(trio.serve_listeners, serve, [listener])
                for node in nodes:
                    listener = _listen(tree.socket_of(usb_node(node.device_number)))
                    serve = partial(
                        _contained, failures, f"device {node.device_number}", partial(_serve_stream, node)
                    )
                    nursery.start_soon(trio.serve_listeners, serve, [listener])
                    nursery.start_soon(_watch, node)
                nursery.start_soon(trio.serve_listeners, _serve_others, [_listen(tree.default_socket)])
                try:
                    trial = USB_TRIAL if nodes else SPI_TRIAL
                    await try_library(LIBRARY, trial, preload.environment())
                except PreloadError as error:
                    failure = error
                    nursery.cancel_scope.cancel()
                else:
                    task_status.started(preload)
        assert failure is not None, "listeners never end"  # noqa: S101
        raise failure
    finally:
        for fifo in fifos:
            fifo.close()


async def _contained(
    failures: Failures,
    name: str,
    serve: Callable[[trio.SocketStream], Awaitable[None]],
    stream: trio.SocketStream,
) -> None:
    """Serve a program; an unexpected error ends this connection alone."""
    with failures.contain(f"a preload client's connection to {name}"):
        await serve(stream)


def _listen(path: Path) -> trio.SocketListener:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.setblocking(False)
    sock.bind(os.fspath(path))
    sock.listen(BACKLOG)
    return trio.SocketListener(trio.socket.from_stdlib_socket(sock))


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
            if len(node.files) == 1:
                await _plug_in_again(node)
            await _serve_calls(PreloadStream(stream), file)
    finally:
        file.close()


async def _watch(node: UsbfsNode) -> None:
    while True:
        await node.port.wait_unplugged()
        node.unplug()
        await node.wait_plugged_in()


async def _plug_in_again(node: UsbfsNode) -> None:
    """Plug a device in again that left the bus, or that the host of another attachment unplugged."""
    try:
        configured = not node.unplugged and await configuration_of(InProcessHost(node.port))
    except TransferFailed:
        configured = False
    if not configured:
        await _plug_in(node)


async def _plug_in(node: UsbfsNode) -> None:
    """Reset and configure a device; one that refuses stays on the bus without a configuration."""
    try:
        await InProcessHost(node.port).plug_in()
    except TransferFailed as failure:
        logger.warning("device %d was not configured: %s", node.device_number, failure)
    node.plug_in()


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
