"""Addresses of TCP servers, `HOST:PORT`.

Other people's programs load this module through `host_tools/standins/injection`: it suits Python 3.10.
"""

from __future__ import annotations


def parse_address(address: str, example_port: int = 3240) -> tuple[str, int]:
    """Return host and port of `HOST:PORT`; an IPv6 host stands in brackets. Anything else is a ValueError.

    `example_port` is for the message of the error.
    """
    host, colon, port = address.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{address!r}: put an IPv6 host in brackets, as in [::1]:{example_port}")
    if not (host and colon and port.isascii() and port.isdigit() and 0 < int(port) < 1 << 16):
        raise ValueError(f"{address!r} is no address of the form HOST:PORT, such as localhost:{example_port}")
    return host, int(port)
