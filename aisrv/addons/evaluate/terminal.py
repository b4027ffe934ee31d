"""A result as text for a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from aisrv.values.printable import printable

LISTED: Final = 10
"""Wrong examples that are listed."""
LARGEST_CONFUSION: Final = 12
"""Classes whose confusion is shown as a table; of more the most frequent mistakes are."""

_CORNER: Final = "label \N{RIGHTWARDS ARROW} predicted"

SHARES: Final = (
    "accuracy",
    "top",
    "macro",
    "recall",
    "precision",
    "f1",
    "agreement",
    "auc",
    "pauc",
    "best_f1",
)
"""Beginnings of the names of figures that are shown in percent."""


def describe(result: Mapping[str, Any], plan: Mapping[str, Any]) -> str:
    """Return what a run came to, from its result and plan."""
    return "\n".join(_lines(result, plan))


def _lines(result: Mapping[str, Any], plan: Mapping[str, Any]) -> Iterator[str]:
    total = plan["data"]["examples"]
    count = f"{total:,}" if not result["partial"] else f"{result['examples']:,} of {total:,}"
    where = "engine processes" if plan["on"] == "engine" else "a device"
    yield f"{plan['model']['name']} on {plan['data']['uri']}: {count} examples, {plan['engine']} in {where}"
    sources = sorted({each["source"] for each in plan["inputs"]})
    kinds = ", ".join(str(each["kind"]) for each in plan["inputs"])
    yield f"inputs: {kinds}, by {' and '.join(_SOURCES[each] for each in sources)}"
    if result["note"]:
        yield f"note: {result['note']}"
    if result["hidden"]:
        yield f"{result['hidden']} hidden files were left out"
    yield ""
    metrics = result["metrics"]
    shown = [name for name in metrics if "." not in name]
    width = max((len(name) for name in shown), default=0)
    for name in shown:
        yield f"{name:<{width}}  {figure(name, metrics[name])}"
    yield from _classes(result)
    yield from _latency(result["latency"])
    yield from _wrong(result)
    yield from _comparison(result)


_SOURCES: Final = {
    "settings": "the file of --input",
    "metadata": "the model's metadata",
    "auto": "the defaults",
}


def figure(name: str, metric: Mapping[str, float | None]) -> str:
    """Return a figure with its interval, in percent where its name is that of a share."""
    if metric["value"] is None:
        return "not defined"
    is_share = name.startswith(SHARES)

    def text(value: float | None) -> str:
        return "" if value is None else f"{100 * value:.2f}" if is_share else f"{value:.4g}"

    unit = " %" if is_share else ""
    band = "" if metric["low"] is None else f" ({text(metric['low'])} to {text(metric['high'])})"
    return f"{text(metric['value'])}{unit}{band}"


def _classes(result: Mapping[str, Any]) -> Iterator[str]:
    confusion, names = result["confusion"], [printable(each) for each in result["classes"]]
    if not confusion:
        return
    yield ""
    if result["ties"]:
        yield f"{result['ties']} examples have several largest scores; the lowest class counts"
    if len(confusion) <= LARGEST_CONFUSION:
        width = max(5, *(len(name) for name in names), len(str(max(map(max, confusion)))))
        margin = max(len(_CORNER), width) + 2
        yield _CORNER.ljust(margin) + " ".join(f"{name:>{width}}" for name in names)
        for name, row in zip(names, confusion, strict=True):
            yield name.ljust(margin) + " ".join(f"{number or '.':>{width}}" for number in row)
        return
    mistakes = [
        (number, label, predicted)
        for label, row in enumerate(confusion)
        for predicted, number in enumerate(row)
        if number and label != predicted
    ]
    yield "most frequent mistakes:"
    for number, label, predicted in sorted(mistakes, key=lambda each: (-each[0], each[1:]))[:LISTED]:
        yield f"  {number:>6,}  {names[label]} as {names[predicted]}"


def _latency(latency: Mapping[str, Any]) -> Iterator[str]:
    yield ""
    device, host = latency["device"], latency["host_ms"]
    if device is not None:
        band = f"{device['ms_low']:.3g} to {device['ms_high']:.3g}"
        yield f"on the device: {device['ms']:.3g} ms a run ({band}), modeled"
    if host["p50"] is not None:
        p50, p95, p99 = (f"{host[name]:.3g}" for name in ("p50", "p95", "p99"))
        yield f"on this machine: {p50} ms a run, 95 % within {p95}, 99 % within {p99}"


def _wrong(result: Mapping[str, Any]) -> Iterator[str]:
    if not result["wrong_count"]:
        return
    names: Sequence[str] = result["classes"]

    def named(number: int) -> str:
        return printable(names[number]) if 0 <= number < len(names) else str(number)

    yield ""
    yield f"wrong: {result['wrong_count']:,}"
    for each in result["wrong"][:LISTED]:
        said = each.get("failed") or f"{named(each['label'])} as {named(each['predicted'])}"
        yield f"  {each['index']:>7}  {printable(said)}  {printable(each['path'])}".rstrip()
    if result["wrong_count"] > LISTED:
        yield f"  and {result['wrong_count'] - LISTED:,} more"


def _comparison(result: Mapping[str, Any]) -> Iterator[str]:
    check, against = result["check"], result["against"]
    if check is not None:
        yield ""
        if check["same"]:
            yield f"{check['examples']} of them through a virtual device: the same bytes"
        elif check["same"] is None:
            yield f"not checked on a virtual device: {check['reason']}"
        else:
            yield f"NOT the same on a virtual device: {check['reason']}"
    if against is None:
        return
    yield ""
    yield f"against {against['name']}: {against['examples']:,} examples"
    if against.get("agreement") is not None:
        yield (
            f"  agreement {100 * against['agreement']:.2f} %, "
            f"right here only {against['right_here_only']:,}, there only {against['right_there_only']:,}"
        )
    for number, each in enumerate(against["outputs"]):
        yield f"  output {number}: {drift_text(each)}"
    first = against["first"]
    if first is not None:
        yield (
            f"  first difference: example {first['index']}, output {first['output']}, element "
            f"{first['element']}: {first['values'][0]:.6g} here, {first['values'][1]:.6g} there"
        )
    for layer in against.get("layers", {}).get("tensors", []):
        if layer["differing"]:
            yield f"  {layer['name']}: {layer_text(layer)}"


def drift_text(each: Mapping[str, Any]) -> str:
    """Return how far an output is apart."""
    if "shapes" in each:
        return "other shapes: {} and {}".format(*each["shapes"])
    if not each["differing"]:
        return "equal"
    steps = "" if each["max_steps"] is None else f", {each['max_steps']:g} steps"
    ratio = "" if each["sqnr_db"] is None else f"; SQNR {each['sqnr_db']:.1f} dB"
    cosine = "" if each["cosine"] is None else f", cosine {each['cosine']:.6f}"
    return (
        f"{each['differing']:,} of {each['examples']:,} examples differ, "
        f"by up to {each['max_abs']:.4g}{steps}, {each['mean_abs']:.4g} in the mean{ratio}{cosine}"
    )


def layer_text(layer: Mapping[str, Any]) -> str:
    """Return how far a tensor is apart."""
    ratio = "" if layer["sqnr_db"] is None else f", SQNR {layer['sqnr_db']:.1f} dB"
    return f"{layer['differing']:,} of {layer['elements']:,} elements, by up to {layer['largest']:g}{ratio}"
