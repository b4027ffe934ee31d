"""Sentences that all reports share: what was profiled, where it fits, what the times rest on."""

from typing import Final

from aisrv.analysis.profile.model_profile import Configuration, MemoryProfile, ModelProfile, Placement
from aisrv.inference.timings import FITTED_CLOCK_MHZ

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
