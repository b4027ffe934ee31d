"""Addresses of servers: `HOST:PORT`, and `unix:PATH` for one on this machine.

Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations

import socket
from typing import Final

from host_tools.errors import BadAddressError

UNIX: Final = "unix:"
"""What precedes the path of a Unix socket."""

EXAMPLE_PORT: Final = 3240
"""In messages of what an address looks like; that of USB/IP."""


def connect(address: str, timeout: float, example_port: int = EXAMPLE_PORT) -> socket.socket:
    """Connect to a server within `timeout` seconds. Raises OSError or BadAddressError."""
    check_address(address, example_port)
    if address.startswith(UNIX):
        peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            peer.settimeout(timeout)
            peer.connect(address.removeprefix(UNIX))
        except BaseException:
            peer.close()
            raise
        return peer
    peer = socket.create_connection(parse_address(address), timeout)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return peer


def check_address(address: str, example_port: int = EXAMPLE_PORT) -> None:
    """Raise BadAddressError where a text is not an address of a server."""
    if not address.startswith(UNIX):
        parse_address(address, example_port)
    elif address == UNIX:
        raise BadAddressError(f"{address!r} lacks a path, as in unix:/run/user/1000/aisrv")


def parse_address(address: str, example_port: int = EXAMPLE_PORT) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an IPv6 host stands in brackets.

    Anything else is a BadAddressError, whose message has `example_port`.
    """
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise BadAddressError(f"{address!r}: put an IPv6 host in brackets, as in [::1]:{example_port}")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise BadAddressError(
            f"{address!r} is not an address of the form HOST:PORT, such as localhost:{example_port}"
        )
    try:
        host.encode("idna")  # as the resolver does
    except UnicodeError as error:
        raise BadAddressError(f"{address!r}: no host has such a name ({error})") from None
    return host, int(port)
