"""Whether what came for a listener is HTTP: a page in a browser may send it to any port of its machine.

A listener whose peers speak HTTP checks Host and Origin itself. The start of a request is not a message of
what the others speak, so that its body, which the page chooses, is never looked at.
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
"""The methods of requests, and the first word of an HTTP/2 connection."""


def is_http(start: bytes) -> bool:
    """Whether bytes begin as an HTTP request does; three are enough."""
    word = start.split(b" ", 1)[0]
    return len(word) >= 3 and any(method.startswith(word) or word == method for method in METHODS)


def what_came(start: bytes) -> str:
    """Say for the log what came where a message was expected: HTTP, or the bytes."""
    if is_http(start):
        return "speaks HTTP, as pages in a browser do: refused"
    return f"sent {bytes(start[:8]).hex(' ')}, which begins no message"
