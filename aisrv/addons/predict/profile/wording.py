"""Sentences of all reports: the profile's subject, its memory, the basis of its times."""

from collections.abc import Sequence
from typing import Final

from aisrv.addons.predict.profile.model_profile import (
    Configuration,
    MemoryProfile,
    ModelProfile,
    Placement,
)
from aisrv.inference.timings import (
    Basis,
    DeviceModel,
    FlashPath,
    Memory,
    OperatorClass,
    OperatorTime,
    Total,
)
from aisrv.protocol.memory_map import ModelMemory

ORIGIN: Final = (
    "Times are computed from shapes, by laws in issue slots that were fitted to published runs of XMOS's "
    "kernels; in parentheses is between what they are expected to be."
)
HOST: Final = "says nothing about the device"
FLASH: Final = "From flash: all parameters are read in every inference, while nothing else runs."


def describe(configuration: Configuration) -> str:
    device = configuration.device
    threads = "1 thread" if device.threads == 1 else f"{device.threads} threads"
    name = f"{configuration.name}: " if configuration.name else ""
    reference = "" if device.tick_mhz == 100 else f", reference {device.tick_mhz:g} MHz"
    arena = "" if device.arena is Memory.INTERNAL else ", arena in external memory"
    return (
        f"{name}{threads}, {device.core_mhz:g} MHz{reference}, {device.kernels.value} kernels, "
        f"{_flash(device)}{arena}"
    )


def _flash(device: DeviceModel) -> str:
    if device.flash is FlashPath.FAST:
        return "fast flash"
    if isinstance(device.flash, FlashPath | None):
        return "flash through the server"
    return f"flash {device.flash / 1e6:g} MB/s"


def fit(profile: ModelProfile) -> tuple[bool, str]:
    """Describe whether a model fits, with its file in the arena or else in external memory."""
    fitting = [each for each in profile.memory.placements if each.fits]
    if fitting:
        best = fitting[0]
        place = "the arena" if best.memory is ModelMemory.ARENA else best.memory.value
        return True, f"Fits with its file in {place}; {best.free:,} bytes of arena remain."
    return False, "Does not fit: " + "; ".join(each.detail for each in profile.memory.placements)


def duration(profile: ModelProfile) -> str:
    """Describe the time of an inference with its band, and the place of its parameters."""
    device = profile.configuration.device
    ticks = "" if device.tick_mhz == 100 else f", {profile.ticks:,} ticks of 1/{device.tick_mhz:g} us"
    place = (device.parameters or Memory.INTERNAL).value
    return f"One inference takes {profile.total}{ticks}, parameters {place}."


def foundation(profile: ModelProfile) -> str:
    """Describe the tools that made the file, and the basis of the time, the largest part first."""
    tools = (
        "Not converted: times as the tools of 2023 would convert it"
        if profile.generation.origin == "plain"
        else f"Tools of {profile.generation}"
    )
    shares = sorted(profile.basis_shares.items(), key=lambda each: -each[1])
    parts = [f"{_share(share)} {_BASIS[basis]}" for basis, share in shares if share > 0]
    return f"{tools}. Of the time {', '.join(parts)}." if parts else f"{tools}."


_BASIS: Final = {
    Basis.MEASURED: "is as measured",
    Basis.CARRIED: "is carried over from another generation",
    Basis.EXTRAPOLATED: "is extrapolated to other shapes",
    Basis.ESTIMATE: "is an estimate",
}


def _share(share: float) -> str:
    return "all" if share == 1 else f"{100 * share:.1f} %" if share >= 0.001 else "less than 0.1 %"


def milliseconds(each: Total | OperatorTime | OperatorClass, profile: ModelProfile) -> str:
    """Format a time in ms."""
    return f"{profile.total.in_ms(each.ticks):.3f}"


def band(each: Total | OperatorTime | OperatorClass, profile: ModelProfile) -> str:
    """Format the band of a time, in ms."""
    low, high = profile.total.in_ms(each.low), profile.total.in_ms(each.high)
    return f"{low:.3f} to {high:.3f}"


def with_band(each: Total | OperatorTime | OperatorClass, profile: ModelProfile) -> str:
    """Format a time in ms with its band."""
    return f"{milliseconds(each, profile)} ({band(each, profile)})"


def short(total: Total) -> str:
    """Return ms with their band in three digits, for a table of many: 30.4 (28.5-30.7)."""
    whole = len(f"{total.ms:.0f}") if total.ms >= 1 else 0
    decimals = max(3 - whole, 0) if total.ms >= 0.1 else 5
    values = (total.in_ms(ticks) for ticks in (total.ticks, total.low, total.high))
    middle, low, high = (f"{value:,.{decimals}f}" for value in values)
    return f"{middle} ({low}-{high})"


def comparison(profiles: Sequence[ModelProfile]) -> tuple[bool, str]:
    """Describe whether all profiles fit, and the range of their inferences' times."""
    misfits = [title(profile) for profile in profiles if not fit(profile)[0]]
    fits = f"{len(misfits)} of {len(profiles)} do not fit: {', '.join(misfits)}" if misfits else "All fit"
    fast, slow = (choose(profiles, key=lambda profile: profile.total.ms) for choose in (min, max))
    takes = str(fast.total)
    if fast is not slow:
        takes = f"{fast.total} ({title(fast)}) to {slow.total} ({title(slow)})"
    return not misfits, f"{fits}. One inference takes {takes} on the device."


def placement(value: Placement) -> str:
    return f"fits, {value.free:,} bytes of the arena free" if value.fits else f"does not fit: {value.detail}"


def fits_in(memory: MemoryProfile) -> str:
    """Name the memories that take the model's file, with its tensors in the arena."""
    memories = [each.memory.name.lower() for each in memory.placements if each.fits]
    return "both" if len(memories) == len(memory.placements) else "".join(memories) or "none"


def title(profile: ModelProfile) -> str:
    name = profile.configuration.name
    return f"{profile.name} ({name})" if name else profile.name


def difference(profile: ModelProfile, first: ModelProfile) -> str:
    """Return the ratio of a time to that of the first profile."""
    return f"{profile.total.ms / first.total.ms:.2f}x" if first.ticks else ""
