"""The state of a channel end: all that its verbs, its routes and its reports have between them."""

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Self

from aisrv.xcore.channels.tokenbuffer import TokenBuffer
from aisrv.xcore.pool import Pool
from aisrv.xcore.runtime import Parking, Runtime

if TYPE_CHECKING:
    from aisrv.xcore.channels.listener import HandedCall, Listener
    from aisrv.xcore.channels.verb import Steps
    from aisrv.xcore.core import Core

RESOURCE_TYPE: Final = 2
"""Bits 0 to 7 of the resource id of a channel end."""


class _Nobody(Enum):
    """The end of a route whose destination was not allocated as it opened."""

    NOBODY = "nobody"


NOBODY: Final = _Nobody.NOBODY


class EndState:
    """The fields of a channel end; `ChanEnd` has its verbs."""

    __slots__ = (
        "_buffer", "_claims", "_destination", "_error", "_freed", "_listener", "_parking", "_pool",
        "_result", "_route", "_source", "_steps", "_switch", "_user", "crossed", "handed",
        "is_stepping", "left", "noted", "resource_id", "runtime", "tile",
    )  # fmt: skip

    def __init__(self, runtime: Runtime, tile: int, pool: Pool) -> None:
        """Allocate an end with a number from its tile's pool, which gets it back when the end is freed."""
        # Place.
        self.runtime: Final = runtime
        """The runtime of its node, shared with the other resources."""
        self.tile: Final = tile
        """The tile's number."""
        self.resource_id: Final = runtime.resource_id(tile, RESOURCE_TYPE, pool.take())
        """Its type in bits 0 to 7, its number in 8 to 15, node and tile above."""
        self._pool = pool
        """Where its number came from."""
        self._freed = False
        """Whether its tile has got it back."""
        self._switch = runtime.switch
        """Finds the other ends, and steps verbs."""

        # Tokens and routes.
        self._buffer = TokenBuffer()
        """Tokens received but not yet read."""
        self._source: Self | None = None
        """The end whose route is open to this one."""
        self._claims: tuple[Self, ...] = ()
        """Ends that wait for their route to this one: few, mostly none."""
        self._destination: int | None = None
        """Resource id of the end that outputs go to."""
        self._route: Self | _Nobody | None = None
        """The end that its open route goes to."""
        self.crossed = 0
        """Runs, packets and whole calls that it has sent: whether much goes on here, not how many tokens."""
        self.handed: HandedCall | None = None
        """A call that its core has not taken yet."""

        # Who uses it, and the verb in progress.
        self._user: Core | None = None
        """The core whose verb began last."""
        self._listener: Listener | None = None
        """The select that waits for its first token."""
        self._steps: Steps[Any] | None = None
        """The verb in progress."""
        self.is_stepping = False
        """Whether the verb in progress is being stepped right now: what it calls is a step of it."""
        self._parking: Parking[Any] = Parking(runtime)
        """Where the task of the verb in progress sleeps."""
        self._result: Any = None
        """What a verb returned that was done before its task would have slept."""
        self._error: Exception | None = None
        """What such a verb raised."""
        self.left: Steps[None] | None = None
        """The verb that was left to itself last, because its task was cancelled; it may have ended."""
        self.noted: object = None
        """What the verb in progress has noted for the other side: see `handover`."""
        self._switch.register(self)
