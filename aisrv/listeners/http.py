"""Detects HTTP requests sent to a listener: a page in a browser may send them to any port of its machine.

A listener whose peers speak HTTP checks Host and Origin itself. The start of a request is not a message of
the other protocols, so that its body, which the page chooses, is never looked at.
"""

from typing import Final

METHODS: Final = (
    b"GET",
    b"HEAD",
    b"POST",
    b"PUT",
    b"DELETE",
    b"OPTIONS",
    b"PATCH",
    b"TRACE",
    b"CONNECT",
    b"PRI",
)
"""Methods of requests, and the first word of an HTTP/2 connection."""


def is_http(start: bytes) -> bool:
    """Check whether bytes begin as an HTTP request does; three are enough."""
    word = start.split(b" ", 1)[0]
    return len(word) >= 3 and any(method.startswith(word) or word == method for method in METHODS)


def describe_unexpected(start: bytes) -> str:
    """Describe for the log the bytes that came in place of a message: HTTP, or their values."""
    if is_http(start):
        return "speaks HTTP, as pages in a browser do: refused"
    return f"sent no valid message header: {bytes(start[:8]).hex(' ')}"
