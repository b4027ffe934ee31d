"""The options of `run` for the Jacdac bus of a device, and the servers that they start."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import click
import trio

from aisrv.board import DEFAULT_JACDAC, Board, BoardError, plan_of
from aisrv.listeners.stream_server import LOOPBACK
from aisrv.terminal.option_group import option, option_group

if TYPE_CHECKING:
    from aisrv.addons.jacdac.bus.bus import JacdacBus

DASHBOARD: Final = "https://microsoft.github.io"
TCP_PORT: Final = 8082
WEBSOCKET_PORT: Final = 8081
"""Port of WebSockets for Jacdac's clients."""

Listen = Callable[[Callable[..., Awaitable[Any]], str, int, str], Awaitable[str]]
"""Starts a server on an address and a port, which an option sets, and returns its address."""


@dataclass(frozen=True, slots=True)
class JacdacListening:
    """Servers of a bus; None for those that are off."""

    host: str = LOOPBACK
    port: int | None = None
    websocket_port: int | None = None
    hub: str | None = None
    serial: bool = False
    origins: Sequence[str] = ()
    """Origins besides this machine's whose pages may use the WebSocket."""


@dataclass(frozen=True, slots=True)
class JacdacOptions:
    """A device on a Jacdac bus, and the servers of the bus."""

    jacdac: bool | None = option(
        "--jacdac/--no-jacdac",
        help="Run a device on a Jacdac bus, which takes a core. [default: the board's]",
    )
    jacdac_host: str = option(
        "--jacdac-host", default=LOOPBACK, show_default=True, help="Address that the bus is served on."
    )
    jacdac_port: int | None = option(
        "--jacdac-port",
        type=click.IntRange(0, 65535),
        help=f"TCP port of the bus; 0 takes any that is free. [default: the board's, or {TCP_PORT}]",
    )
    jacdac_websocket_port: int | None = option(
        "--jacdac-websocket-port",
        type=click.IntRange(0, 65535),
        help=f"WebSocket port of the bus, for browsers. [default: the board's, or {WEBSOCKET_PORT}]",
    )
    jacdac_origin: tuple[str, ...] = option(
        "--jacdac-origin",
        multiple=True,
        metavar="URL",
        help="Origin whose pages may use the WebSocket, besides those of this machine; may be repeated. "
        f"Jacdac's dashboard is {DASHBOARD}, as are all other pages of its organization.",
    )
    jacdac_hub: str | None = option(
        "--jacdac-hub", metavar="HOST:PORT", help="Join the bus to another hub, such as `devs devtools`."
    )
    jacdac_serial: bool = option(
        "--jacdac-serial",
        default=False,
        is_flag=True,
        help="Offer the bus as a serial port (JDUSB) on a pseudo-terminal.",
    )
    jacdac_protocol_test: bool = option(
        "--jacdac-protocol-test",
        default=False,
        is_flag=True,
        help="Add a Protocol Test service to the device.",
    )

    @property
    def is_given(self) -> bool:
        asked = (self.jacdac_port, self.jacdac_websocket_port, self.jacdac_hub)
        return self.jacdac_serial or self.jacdac_protocol_test or any(each is not None for each in asked)

    def board(self, board: Board) -> Board:
        """Return the board with the changes of the options. Raises click.UsageError for an impossible one."""
        spec = board.jacdac
        if self.jacdac is False:
            spec = None
        elif self.jacdac or self.is_given:
            spec = spec or DEFAULT_JACDAC
            try:
                spec = replace(spec, tile=min(spec.tile, board.tiles - 1), hub=self.jacdac_hub or spec.hub)
                if self.jacdac_protocol_test:
                    spec = replace(spec, protocol_test=True)
            except BoardError as error:
                raise click.UsageError(str(error)) from None
        try:
            changed = replace(board, jacdac=spec)
            plan_of(changed).check()
        except BoardError as error:
            raise click.UsageError(str(error)) from None
        return changed

    def listening(self, board: Board) -> JacdacListening | None:
        """Return the servers of the bus of a board; None if it has no bus."""
        spec = board.jacdac
        if spec is None:
            return None
        return JacdacListening(
            self.jacdac_host,
            _first(self.jacdac_port, spec.port, TCP_PORT),
            _first(self.jacdac_websocket_port, spec.websocket_port, WEBSOCKET_PORT),
            spec.hub,
            self.jacdac_serial,
            self.jacdac_origin,
        )


jacdac_options = option_group("jacdac", JacdacOptions)


async def serve_jacdac(
    nursery: trio.Nursery, bus: "JacdacBus", listening: JacdacListening, listen: Listen
) -> Sequence[str]:
    """Start the servers of a bus; return their addresses. Raises OSError."""
    places = []
    if listening.port is not None:
        from aisrv.addons.jacdac.attach.tcp import JacdacTcpServer

        tcp = JacdacTcpServer(bus)
        place = await listen(tcp.serve, listening.host, listening.port, "--jacdac-port")
        places.append(f"jacdac:{place}")
    if listening.websocket_port is not None:
        from aisrv.addons.jacdac.attach.websocket import JacdacWebSocketServer

        server = JacdacWebSocketServer(bus, listening.origins)
        option = "--jacdac-websocket-port"
        place = await listen(server.serve, listening.host, listening.websocket_port, option)
        places.append(f"ws://{place}/")
    if listening.serial:
        from aisrv.addons.jacdac.attach.serial_port import serve_serial_port

        places.append(f"jacdac-serial:{await nursery.start(serve_serial_port, bus)}")
    if listening.hub is not None:
        from aisrv.addons.jacdac.attach.tcp import join_hub

        host, _, port = listening.hub.rpartition(":")
        nursery.start_soon(join_hub, bus, host.strip("[]"), int(port))
    return places


def _first(*ports: int | None) -> int | None:
    return next((port for port in ports if port is not None), None)
