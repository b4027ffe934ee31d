"""Sentences that all reports share: what was profiled, where it fits, what the times rest on."""

from collections.abc import Sequence
from typing import Final

from aisrv.analysis.profile.model_profile import (
    Configuration,
    MemoryProfile,
    ModelProfile,
    Placement,
    milliseconds,
)
from aisrv.inference.timings import FITTED_CLOCK_MHZ
from aisrv.protocol.memory_map import ModelMemory

ORIGIN: Final = (
    "Times are computed from shapes, by formulas fitted to published runs of XMOS's kernels "
    f"(XMOS ai_tools, examples/app_profiling), which are assumed to be at {FITTED_CLOCK_MHZ} MHz."
)
HOST: Final = "says nothing about the device"
FLASH: Final = "From flash: all parameters are read in every inference, while nothing else runs."


def describe(configuration: Configuration) -> str:
    """Describe a device in one line."""
    device = configuration.device
    threads = "1 thread" if device.threads == 1 else f"{device.threads} threads"
    name = f"{configuration.name}: " if configuration.name else ""
    return (
        f"{name}{threads}, {device.clock_mhz:g} MHz, {device.kernels.value} kernels, "
        f"flash {device.flash_rate / 1e6:g} MB/s"
    )


def fit(profile: ModelProfile) -> tuple[bool, str]:
    """Say whether a model fits, with its file in the arena or else in external memory."""
    fitting = [each for each in profile.memory.placements if each.fits]
    if fitting:
        best = fitting[0]
        place = "the arena" if best.memory is ModelMemory.ARENA else best.memory.value
        return True, f"Fits with its file in {place}; {best.free:,} bytes of arena remain."
    return False, "Does not fit: " + "; ".join(each.detail for each in profile.memory.placements)


def duration(profile: ModelProfile) -> str:
    """Say how long an inference takes, and how far that is known."""
    took = f"One inference takes {_ms(profile)} on the device"
    return f"{took}, {100 * profile.estimate_share:.1f} % of it estimates."


def comparison(profiles: Sequence[ModelProfile]) -> tuple[bool, str]:
    """Say whether all profiles fit, and from what to what their inferences take."""
    misfits = [title(profile) for profile in profiles if not fit(profile)[0]]
    fits = f"{len(misfits)} of {len(profiles)} do not fit: {', '.join(misfits)}" if misfits else "All fit"
    fast, slow = (choose(profiles, key=lambda profile: profile.ticks) for choose in (min, max))
    takes = f"{_ms(fast)} ({title(fast)}) to {_ms(slow)} ({title(slow)})" if fast is not slow else _ms(fast)
    return not misfits, f"{fits}. One inference takes {takes} on the device."


def _ms(profile: ModelProfile) -> str:
    return f"{milliseconds(profile.ticks):.3f} ms"


def placement(value: Placement) -> str:
    """Describe whether a model fits."""
    return f"fits, {value.free:,} bytes of the arena free" if value.fits else f"does not fit: {value.detail}"


def fits_in(memory: MemoryProfile) -> str:
    """Name the memories that take the model's file, with its tensors in the arena."""
    memories = [each.memory.name.lower() for each in memory.placements if each.fits]
    return "both" if len(memories) == len(memory.placements) else "".join(memories) or "none"


def title(profile: ModelProfile) -> str:
    """Name a profile among others."""
    name = profile.configuration.name
    return f"{profile.name} ({name})" if name else profile.name


def difference(ticks: int, first: int) -> str:
    """Return how many times those of the first profile ticks are."""
    return f"{ticks / first:.2f}x" if first else ""
