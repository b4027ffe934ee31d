"""Requests that a listener may get: each method there is and some that are none, of friends and strangers."""

from collections.abc import Iterator
from itertools import product
from typing import Final

from aisrv.listeners import http

# fmt: off
REGISTERED: Final = (
    "ACL", "BASELINE-CONTROL", "BIND", "CHECKIN", "CHECKOUT", "CONNECT", "COPY", "DELETE", "GET", "HEAD",
    "LABEL", "LINK", "LOCK", "MERGE", "MKACTIVITY", "MKCALENDAR", "MKCOL", "MKREDIRECTREF", "MKWORKSPACE",
    "MOVE", "OPTIONS", "ORDERPATCH", "PATCH", "POST", "PRI", "PROPFIND", "PROPPATCH", "PUT", "QUERY",
    "REBIND", "REPORT", "SEARCH", "TRACE", "UNBIND", "UNCHECKOUT", "UNLINK", "UNLOCK", "UPDATE",
    "UPDATEREDIRECTREF", "VERSION-CONTROL",
)
# fmt: on
"""IANA's registry of methods ("Hypertext Transfer Protocol (HTTP) Method Registry"), without `*`."""
NO_METHODS: Final = (
    "get",
    "Head",
    "X",
    "GETGET",
    "A" * 300,
    "GET\t",
    "",
    "\x16\x03\x01",
    "G\0ET",
    "HEAD\x7f",
)
METHODS: Final = (*REGISTERED, *NO_METHODS)
TARGETS: Final = ("/", "/socket", "/do/gpio?device=1-1&on=1", "*", "127.0.0.1:80")
HOSTS: Final = ("127.0.0.1:PORT", "evil.example:PORT", "")
ORIGINS: Final = ("http://127.0.0.1:PORT", "http://evil.example", "null", "")
UPGRADE: Final = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n"
)
_MORE: Final = (
    "Connection: close\r\n",
    UPGRADE,
    "Origin: http://evil.example\r\n",  # twice, where there is one
    "Content-Length: 4\r\nExpect: 100-continue\r\nConnection: close\r\n",
    "Transfer-Encoding: chunked\r\nConnection: close\r\n",
)


def requests(port: int, token: str) -> Iterator[tuple[str, bytes]]:
    """Yield each method and a request of it: with and without `token`, of all origins, to all names.

    Each method meets each target, host, origin, token and kind of body, but not all of them together; those
    that browsers know meet more.
    """
    places = list(product(TARGETS, HOSTS))
    for number, method in enumerate(METHODS):
        known = method.encode("latin-1") in http.METHODS
        for place in range(len(places)) if known else (number, 3 * number + 1):
            target, host = places[place % len(places)]
            request = _request(method, target, host, number + place, token)
            yield method, request.replace("PORT", str(port)).encode("latin-1")


def _request(method: str, target: str, host: str, kind: int, token: str) -> str:
    """Return a request whose version, headers and body depend on `kind`."""
    lines = [f"{method} {target} HTTP/1.{kind % 7 != 0:d}"]
    lines += [f"Host: {host}"] * bool(host)
    origin = ORIGINS[kind % len(ORIGINS)]
    lines += [f"Origin: {origin}"] * bool(origin)
    if kind % 2:
        lines.append(f"X-Aisrv-Token: {token if kind % 4 == 1 else 'wrong'}")
    return "\r\n".join(lines) + "\r\n" + _MORE[kind % len(_MORE)] + "\r\n4\r\nbody\r\n0\r\n\r\n"
