"""What was published of XMOS's chips beside what is predicted.

python -m benchmarks.predictions                   all published figures
python -m benchmarks.predictions --csv FILE        a file of measured operators, one by one
python -m benchmarks.predictions --leave-out vww   laws fitted without a network, and how they predict it
python -m benchmarks.predictions --write           writes the table of docs/guides/profile.md
python -m benchmarks.predictions --check           exits with 1 where that table differs
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from aisrv.inference.timings import DeviceModel, OperatorTime, generation_of, sum_of, total_of
from aisrv.inference.timings.estimation import estimate_times
from aisrv.model import Model
from benchmarks.left_out import NETWORKS, left_out
from benchmarks.published_networks import (
    PROFILES,
    Measured,
    person_detector,
    person_detector_2024,
    person_detector_with_reference_kernels,
    read_csv,
)

PAGE: Final = Path(__file__).parent.parent / "docs/guides/profile.md"
BEGIN: Final = "<!-- predictions: begin -->"
END: Final = "<!-- predictions: end -->"


class Figure(NamedTuple):
    """A published time beside what is predicted, in ticks as printed."""

    network: str
    what: str
    published: int
    predicted: int
    low: int
    high: int

    @property
    def is_inside(self) -> bool:
        """Whether the published time is in the band."""
        return self.low <= self.published <= self.high


def of_times(network: str, what: str, published: int, times: Sequence[OperatorTime]) -> Figure:
    """A figure of some operators together."""
    total = sum_of(times)
    return Figure(network, what, published, total.ticks, total.low, total.high)


def of_total(network: str, what: str, published: int, model: Model, device: DeviceModel) -> Figure:
    """A figure of a whole inference."""
    total = total_of(estimate_times(device, model), device, model)
    return Figure(network, what, published, total.ticks, total.low, total.high)


_SUMS_2023: Final = {
    1: {"XC_conv2d_v2": 2_971_789, "XC_pad": 54_115, "XC_pad_3_to_4": 26_993},
    5: {"XC_conv2d_v2": 717_748},
}
_NODES_2023: Final = {41: 34_557, 42: 2_550, 43: 591, 44: 110, 45: 134, 46: 1_668}
_SUMS_2024: Final = {
    "XC_conv2d_v2": 2_779_619,
    "XC_pad": 53_368,
    "XC_pad_3_to_4": 26_992,
    "XC_ld_weights": 459_310,
    "XC_slice": 194,
    "XC_softmax": 392,
}


def figures() -> Iterator[Figure]:
    """All published figures of networks whose shapes are known."""
    yield from _person_detector_2023()
    yield from _person_detector_2024()
    for name, title in (
        ("mobilenet_v1_025_128_2022", "MobileNet, 128 x 128, 2022"),
        ("mobilenet_v1_025_192_2021", "MobileNet, 192 x 192, in external memory, 2021"),
    ):
        yield from of_measured(title, read_csv(PROFILES / f"{name}.csv"))


def of_measured(title: str, network: Measured) -> Iterator[Figure]:
    """The total and the classes of a network of which each operator was measured."""
    yield of_total(title, "total", sum(network.ticks), network.model, network.device)
    classes: dict[str, list[tuple[OperatorTime, int]]] = {}
    for time, ticks in zip(estimate_times(network.device, network.model), network.ticks, strict=True):
        classes.setdefault(time.form or time.name, []).append((time, ticks))
    for name, pairs in classes.items():
        yield of_times(
            title, f"{len(pairs)} {name}", sum(ticks for _, ticks in pairs), [time for time, _ in pairs]
        )


def _person_detector_2023() -> Iterator[Figure]:
    title, model = "person detector, 2023", person_detector()
    for threads, published in ((1, 3_054_809), (5, 800_767)):
        device = DeviceModel(threads=threads)
        suffix = "1 thread" if threads == 1 else f"{threads} threads"
        times = estimate_times(device, model)
        yield of_total(title, f"total, {suffix}", published, model, device)
        for name, ticks in _SUMS_2023[threads].items():
            members = [time for time in times if time.name == name]
            yield of_times(title, f"{len(members)} {name}, {suffix}", ticks, members)
        if threads == 1:
            for index, ticks in _NODES_2023.items():
                yield of_times(title, f"node {index}, {times[index].name}", ticks, [times[index]])
    reference = person_detector_with_reference_kernels()
    yield of_total(title, "total with two reference kernels", 7_486_305, reference, DeviceModel())
    left = [time for time in estimate_times(DeviceModel(), reference) if time.name == "DEPTHWISE_CONV_2D"]
    yield of_times(title, "these two, DEPTHWISE_CONV_2D", 4_487_819, left)


def _person_detector_2024() -> Iterator[Figure]:
    title, model = "person detector, 2024", person_detector_2024()
    device = DeviceModel().for_generation(generation_of(model).generation)
    yield of_total(title, "total, parameters by fast flash", 3_320_000, model, device)
    times = estimate_times(device, model)
    for name, ticks in _SUMS_2024.items():
        members = [time for time in times if time.name == name]
        yield of_times(title, f"{len(members)} {name}", ticks, members)


def table(rows: Sequence[Figure]) -> str:
    """A table of Markdown, in ticks."""
    lines = [
        "| network | published figure | ticks | predicted | off by | band |",
        "|---|---|---|---|---|---|",
    ]
    for row in rows:
        off = f"{100 * (row.predicted / row.published - 1):+.1f} %".replace("-0.0", "0.0").replace(
            "+0.0", "0.0"
        )
        cells = row.network, row.what, f"{row.published:,}", f"{row.predicted:,}", off
        lines.append(f"| {' | '.join(cells)} | {row.low:,} to {row.high:,} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    """The page of the docs with the table as it should be."""
    text = PAGE.read_text()
    before, rest = text.split(BEGIN)
    _, after = rest.split(END)
    return f"{before}{BEGIN}\n\n{table(list(figures()))}\n{END}{after}"


def show_csv(network: Measured) -> None:
    """Print each operator of a file, then classes and total."""
    total = total_of(estimate_times(network.device, network.model), network.device, network.model)
    clock = network.device.tick_mhz
    print(f"{network.name}: {total}, {total.ticks:,} ticks of 1/{clock:g} us")
    times = estimate_times(network.device, network.model)
    rows = [
        of_times(network.name, f"{time.index} {time.name} {time.form}".strip(), ticks, [time])
        for time, ticks in zip(times, network.ticks, strict=True)
    ]
    show([*rows, *of_measured(network.name, network)])


def show(rows: Sequence[Figure]) -> None:
    """Print figures as columns."""
    for row in rows:
        off = 100 * (row.predicted / row.published - 1)
        outside = "" if row.is_inside else "  outside of the band"
        band = f"{row.low:,} to {row.high:,}"
        print(f"{row.what:40} {row.published:14,} {row.predicted:14,} {off:+8.2f} %  {band}{outside}")


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the command line says; return the exit code."""
    parser = argparse.ArgumentParser(prog="benchmarks.predictions", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--csv", type=Path, metavar="FILE")
    group.add_argument("--leave-out", choices=NETWORKS)
    group.add_argument("--write", action="store_true")
    group.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    if options.csv is not None:
        show_csv(read_csv(options.csv))
        return 0
    if options.leave_out is not None:
        result = left_out(options.leave_out)
        show([Figure(options.leave_out, result.name, *result.ticks)])
        return 0 if result.is_inside else 1
    if options.write:
        PAGE.write_text(page())
        return 0
    if options.check:
        if PAGE.read_text() == page():
            return 0
        print(f"{PAGE}: the table of published figures differs: run `make predictions`", file=sys.stderr)
        return 1
    network = ""
    for row in figures():
        if row.network != network:
            network = row.network
            print(f"== {network}")
        show([row])
    return 0


if __name__ == "__main__":
    sys.exit(main())
