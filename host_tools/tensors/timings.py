"""Times of a model's operators in its last inference."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from aisrv.protocol.timing_bands import TickBand, TimingBands

REFERENCE_MHZ: Final = 100.0
"""Clock that a device's timers count, where nothing else is known: a tick is 10 ns."""
SHOWN: Final = 3
"""Operators in the text of timings, the slowest."""


class OperatorTime(NamedTuple):
    """An operator's name, empty where it is not known, and how long it took."""

    name: str
    ticks: int
    band: TickBand | None = None
    """Between how many ticks it is expected to take on hardware; None where hardware measured it."""
    reference_mhz: float = REFERENCE_MHZ
    """Ticks in a microsecond."""

    @property
    def microseconds(self) -> float:
        """Time in microseconds."""
        return self.ticks / self.reference_mhz

    @property
    def microseconds_band(self) -> tuple[float, float] | None:
        """The band in microseconds."""
        return in_microseconds(self.band, self.reference_mhz)

    @property
    def duration(self) -> str:
        """The time with its band, for people: 189.19 µs (167.07 to 196.96)."""
        return with_band(self.microseconds, self.microseconds_band, "µs")


class Timings(tuple[int, ...]):  # noqa: SLOT001 - a tuple has no room for slots
    """Ticks of the reference clock for each operator, in execution order; `operators` has more of each.

    A virtual device predicts its times, and says between what they are expected to be; hardware measures
    them.
    """

    names: tuple[str, ...]
    """One for each operator, or none at all."""
    reference_mhz: float
    """Ticks in a microsecond: 100, as the device says, or as the host was told."""
    band: TickBand | None
    """Between how many ticks an inference is expected to take; None where the device does not say."""
    bands: tuple[TickBand, ...]
    """The same of each operator, or none at all."""

    def __new__(
        cls,
        ticks: Iterable[int],
        names: Sequence[str] = (),
        bands: TimingBands | None = None,
        reference_mhz: float = REFERENCE_MHZ,
    ) -> "Timings":
        """Names and bands that are not as many as the times belong to another model, and are dropped.

        `reference_mhz` is the clock where `bands` do not tell it.
        """
        timings = super().__new__(cls, ticks)
        timings.names = tuple(names) if len(names) == len(timings) else ()
        is_known = bands is not None and len(bands.operators) == len(timings)
        timings.reference_mhz = bands.reference_hz / 1e6 if bands is not None else reference_mhz
        timings.band = bands.total if bands is not None and is_known else None
        timings.bands = bands.operators if bands is not None and is_known else ()
        return timings

    @property
    def duration(self) -> str:
        """The time of an inference with its band, for people: 413.90 µs (343.87 to 485.99)."""
        return with_band(self.microseconds, self.microseconds_band, "µs")

    def named(self, names: Sequence[str]) -> "Timings":
        """Return the same times with names."""
        timings = Timings(self, names, reference_mhz=self.reference_mhz)
        timings.band, timings.bands = self.band, self.bands
        return timings

    @property
    def operators(self) -> tuple[OperatorTime, ...]:
        """Each operator with its name and its band."""
        names = self.names or ("",) * len(self)
        bands = self.bands or (None,) * len(self)
        return tuple(
            OperatorTime(name, ticks, band, self.reference_mhz)
            for name, ticks, band in zip(names, self, bands, strict=True)
        )

    @property
    def total(self) -> int:
        """Ticks of all operators."""
        return sum(self)

    @property
    def microseconds(self) -> float:
        """Microseconds of all operators."""
        return self.total / self.reference_mhz

    @property
    def microseconds_band(self) -> tuple[float, float] | None:
        """Between how many microseconds an inference is expected to take; None where no one says."""
        return in_microseconds(self.band, self.reference_mhz)

    def as_json(self) -> dict[str, object]:
        """Return the times as JSON has them; a band is null where the device does not say it."""
        return {
            "reference_mhz": self.reference_mhz,
            "total_ticks": self.total,
            "total_us": self.microseconds,
            "total_us_band": self.microseconds_band,
            "operators": [
                {
                    "index": index,
                    "name": each.name or None,
                    "ticks": each.ticks,
                    "us": each.microseconds,
                    "us_band": each.microseconds_band,
                }
                for index, each in enumerate(self.operators)
            ],
        }

    def __repr__(self) -> str:
        slowest = sorted(enumerate(self.operators), key=lambda each: -each[1].ticks)[:SHOWN]
        shown = ", ".join(
            f"{one.name or f'#{number}'} {with_band(one.microseconds, one.microseconds_band)}"
            for number, one in slowest
        )
        return f"<Timings of {len(self)} operators: {self.duration}{'; ' if shown else ''}{shown}>"


def in_microseconds(band: TickBand | None, reference_mhz: float) -> tuple[float, float] | None:
    """Convert a band of ticks to microseconds; None stays None."""
    return None if band is None else (band.low / reference_mhz, band.high / reference_mhz)


def with_band(microseconds: float, band: tuple[float, float] | None, unit: str = "") -> str:
    """Spell a time, its unit, and between what it is: 189.19 µs (160.81 to 208.11)."""
    spelt = f"{microseconds:.2f} {unit}".rstrip()
    return spelt if band is None else f"{spelt} ({band[0]:.2f} to {band[1]:.2f})"
