"""Starting servers at TCP ports, with errors that name the option that chooses another port."""

import errno
from collections.abc import Awaitable, Callable
from typing import Any

import trio


async def start_listening(
    nursery: trio.Nursery,
    serve: Callable[..., Awaitable[Any]],
    host: str,
    port: int,
    option: str = "--port",
) -> str:
    """Start a server's `serve`; return its address, `HOST:PORT`. Raises OSError with a text for users."""
    try:
        address, bound = await nursery.start(serve, host, port)
    except OSError as error:
        raise _listening_error(error, host, port, option) from error
    return f"[{address}]:{bound}" if ":" in address else f"{address}:{bound}"


def _listening_error(error: OSError, host: str, port: int, option: str) -> OSError:
    """Describe why a server cannot listen; a port in use with the option that chooses another."""
    if error.errno == errno.EADDRINUSE:
        return OSError(
            f"port {port} of {host} is in use; {option} takes another, {option} 0 any that is free"
        )
    return OSError(f"cannot listen at {host}, port {port}: {error.strerror or error}")
