"""The servers of the Jacdac bus of a running device."""

from collections.abc import Sequence
from typing import NamedTuple

import trio

from aisrv.addons.jacdac.attach.serial_port import serve_serial_port
from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer, join_hub
from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer
from aisrv.addons.jacdac.device import bus_of
from aisrv.cli.options.added import Listen
from aisrv.device.device import Device


class Servers(NamedTuple):
    """The servers of a bus."""

    host: str
    port: int
    websocket_port: int
    origins: Sequence[str]
    """Origins besides this machine's whose pages may use the WebSocket."""
    serial: bool
    hub: str | None


async def serve_bus(device: Device, servers: Servers, nursery: trio.Nursery, listen: Listen) -> Sequence[str]:
    """Start the servers of a device's bus; return their addresses. Raises OSError."""
    bus, host = bus_of(device), servers.host
    places = [f"jacdac:{await listen(JacdacTcpServer(bus).serve, host, servers.port, '--jacdac-port')}"]
    web = JacdacWebSocketServer(bus, servers.origins)
    place = await listen(web.serve, host, servers.websocket_port, "--jacdac-websocket-port")
    places.append(f"ws://{place}/")
    if servers.serial:
        places.append(f"jacdac-serial:{await nursery.start(serve_serial_port, bus)}")
    if servers.hub is not None:
        hub, _, hub_port = servers.hub.rpartition(":")
        nursery.start_soon(join_hub, bus, hub.strip("[]"), int(hub_port))
    return places
