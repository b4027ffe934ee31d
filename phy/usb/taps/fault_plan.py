"""Faults as plain values: kinds of faults, and the transfers that they hit. No I/O.

A fault has a text form, `KIND:WHERE:WHEN` or `KIND:WHERE:WHEN:ARGUMENT`, such as `nak:out:2:1.5s`.
"""

import enum
import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from aisrv.protocol.commands import ENDPOINT_IN, ENDPOINT_OUT


class FaultError(ValueError):
    """An invalid fault; the text says what is wrong with it."""


class FaultKind(enum.Enum):
    """Effect on a transfer."""

    STALL = "stall"
    NAK = "nak"
    """The device sees the transfer later."""
    DROP = "drop"
    """The data are lost, and the transfer seems done."""
    DELAY = "delay"
    """The host learns of its end later."""
    TRUNCATE = "truncate"
    """Only the first bytes cross."""
    DISCONNECT = "disconnect"


TIMED: Final = (FaultKind.NAK, FaultKind.DELAY)
"""Kinds that last some seconds."""

LONGEST: Final = 86400.0
"""Seconds that a fault may last."""


@dataclass(frozen=True, slots=True)
class Nth:
    """The transfer with this number, from 1."""

    number: int

    def __post_init__(self) -> None:
        if self.number < 1:
            raise FaultError(f"transfer {self.number} does not exist: they count from 1")

    def __str__(self) -> str:
        return str(self.number)


@dataclass(frozen=True, slots=True)
class Chance:
    """A random choice of transfers; `seed` replaces the plan's."""

    probability: float
    seed: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.probability <= 1:  # this is how NaN is refused as well
            raise FaultError(f"a probability is between 0 and 1, not {self.probability:g}")

    def __str__(self) -> str:
        return f"p={self.probability!r}" + ("" if self.seed is None else f",seed={self.seed}")


PLACES: Final = {"control": 0, "in": ENDPOINT_IN, "out": ENDPOINT_OUT}
_PLACE_NAMES: Final = {address: name for name, address in PLACES.items()}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault: `kind` at the transfers of one endpoint that `when` selects."""

    kind: FaultKind
    endpoint: int
    """Address, bit 7 set for IN; 0 for control transfers."""
    when: Nth | Chance
    seconds: float | None = None
    """Duration of NAK and DELAY."""
    length: int | None = None
    """Bytes that TRUNCATE leaves."""

    def __post_init__(self) -> None:
        kind = self.kind.value
        if self.endpoint & ~0x8F or self.endpoint == 0x80 or self.endpoint < 0:
            raise FaultError(f"{self.endpoint:#x} is not the address of an endpoint")
        if (self.seconds is None) == (self.kind in TIMED):
            raise FaultError(f"{kind} " + ("needs a time" if self.kind in TIMED else "takes no time"))
        if (self.length is None) == (self.kind is FaultKind.TRUNCATE):
            needs = self.kind is FaultKind.TRUNCATE
            raise FaultError(
                f"{kind} " + ("needs a number of bytes" if needs else "takes no number of bytes")
            )
        if self.seconds is not None and not 0 <= self.seconds <= LONGEST:
            raise FaultError(f"{kind} lasts 0 to {LONGEST:g} seconds, not {self.seconds:g}")
        if self.length is not None and self.length < 0:
            raise FaultError(f"truncate leaves 0 bytes or more, not {self.length}")

    @classmethod
    def parse(cls, text: str) -> "Fault":
        """Read the text form; raises FaultError with what is wrong in it, and what would be right."""
        parts = text.split(":")
        try:
            return cls._from_parts(parts)
        except FaultError as error:
            raise FaultError(f"fault {text!r}: {error}") from None

    @classmethod
    def _from_parts(cls, parts: Sequence[str]) -> "Fault":
        if len(parts) not in (3, 4):
            raise FaultError("write KIND:WHERE:WHEN or KIND:WHERE:WHEN:ARGUMENT, as in stall:in:3")
        kind = _parse_kind(parts[0])
        endpoint, when = _parse_place(parts[1]), _parse_when(parts[2])
        if len(parts) == 3:
            return cls(kind, endpoint, when)
        if kind in TIMED:
            return cls(kind, endpoint, when, seconds=_parse_time(parts[3]))
        if kind is FaultKind.TRUNCATE:
            return cls(kind, endpoint, when, length=_parse_whole(parts[3], "a number of bytes"))
        raise FaultError(f"{kind.value} takes no argument, {parts[3]!r} is too much")

    def __str__(self) -> str:
        place = _PLACE_NAMES.get(self.endpoint, f"{self.endpoint:#04x}")
        text = f"{self.kind.value}:{place}:{self.when}"
        if self.seconds is not None:
            return f"{text}:{float(self.seconds)!r}".removesuffix(".0") + "s"
        return text if self.length is None else f"{text}:{self.length}"


def _parse_kind(text: str) -> FaultKind:
    try:
        return FaultKind(text)
    except ValueError:
        raise FaultError(f"{text!r} is not one of {', '.join(kind.value for kind in FaultKind)}") from None


def _parse_place(text: str) -> int:
    if text in PLACES:
        return PLACES[text]
    if re.fullmatch(r"0x[0-9a-fA-F]{1,2}", text):
        return int(text, 16)
    raise FaultError(
        f"{text!r} is not a place; write in, out, control, or an endpoint's address such as 0x81"
    )


def _parse_when(text: str) -> Nth | Chance:
    if text.startswith("p="):
        chance, comma, seed = text.partition(",")
        if comma and not seed.startswith("seed="):
            raise FaultError(f"{seed!r} after the probability; write seed=NUMBER there, as in p=0.01,seed=7")
        try:
            probability = float(chance.removeprefix("p="))
        except ValueError:
            raise FaultError(f"{chance!r} is not a probability; write it as p=0.01") from None
        return Chance(probability, _parse_whole(seed.removeprefix("seed="), "a seed") if comma else None)
    return Nth(_parse_whole(text, "the number of a transfer, nor p=PROBABILITY"))


def _parse_whole(text: str, what: str) -> int:
    # More digits than any number here has; int() of very many is slow.
    if not re.fullmatch(r"[0-9]{1,18}", text):
        raise FaultError(f"{text!r} is not {what}")
    return int(text)


_UNITS: Final = {"s": 1, "ms": 1e3, "us": 1e6}


def _parse_time(text: str) -> float:
    found = re.fullmatch(r"([0-9.]+(?:e[-+]?[0-9]+)?)(s|ms|us)", text)
    try:
        if found is None:
            raise ValueError
        return float(found[1]) / _UNITS[found[2]]
    except ValueError:
        raise FaultError(f"{text!r} is not a time; write it as 1.5s, 20ms or 500us") from None


class _Watch:
    """Counts one fault's transfers and says at which it fires."""

    def __init__(self, fault: Fault, default_seed: str) -> None:
        self.fault: Final = fault
        self._count = 0
        seed = fault.when.seed if isinstance(fault.when, Chance) else None
        self._random = random.Random(default_seed if seed is None else seed)  # noqa: S311 - to be repeatable

    @property
    def is_done(self) -> bool:
        """Return whether it fires no more."""
        return isinstance(self.fault.when, Nth) and self._count >= self.fault.when.number

    def fires(self) -> bool:
        self._count += 1
        if isinstance(self.fault.when, Nth):
            return self._count == self.fault.when.number
        return self._random.random() < self.fault.when.probability


MOST_FAULTS: Final = 64
"""Faults that can be waited for at a time by those that are added."""


class FaultPlan:
    """The faults of one device, and how far each has counted; the same seed gives the same faults again."""

    def __init__(self, faults: Sequence[Fault], seed: int = 0) -> None:
        self._seed = seed
        self._count = len(faults)
        self._watches = [_Watch(fault, f"{seed}:{number}") for number, fault in enumerate(faults)]

    @property
    def endpoints(self) -> frozenset[int]:
        """Endpoints that may have a fault."""
        return frozenset(each.fault.endpoint for each in self._watches)

    @property
    def faults(self) -> list[Fault]:
        """Faults that may still come."""
        return [each.fault for each in self._watches]

    def add(self, fault: Fault) -> None:
        """Add a fault, which counts transfers from now on. Raises FaultError past `MOST_FAULTS`."""
        if len(self._watches) >= MOST_FAULTS:
            raise FaultError(f"{MOST_FAULTS} faults wait already; take them back first")
        self._watches.append(_Watch(fault, f"{self._seed}:{self._count}"))
        self._count += 1

    def clear(self) -> None:
        """Take all faults back that have not come."""
        self._watches.clear()

    def next(self, endpoint: int) -> Fault | None:
        """Count a transfer of an endpoint and return its fault; of several, the first of the plan."""
        fired = [each for each in self._watches if each.fault.endpoint == endpoint and each.fires()]
        if any(each.is_done for each in fired):
            self._watches = [each for each in self._watches if not each.is_done]
        return fired[0].fault if fired else None
