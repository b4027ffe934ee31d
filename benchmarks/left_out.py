"""Laws fitted without one of the measured networks, and how they predict it.

Without the person detector (`vww`) the laws are fitted to the 27 convolutions of MobileNet; what was found in
the other network alone is left out. Without MobileNet (`csv`) they are fitted to the few of the person
detector, and what only MobileNet has is an estimate; its loads from flash, of which nothing else is known,
take what the flash's bus takes.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

import numpy as np
from msgspec.structs import replace

from aisrv.inference.parameters import FLASH_LOADS
from aisrv.inference.timings import Band, DeviceModel, Generation, laws
from aisrv.inference.timings.converted import convolution_of
from aisrv.inference.timings.convolution import Convolution, slots
from aisrv.inference.timings.estimation import estimate_times
from aisrv.inference.timings.laws import CONVOLUTIONS, ConvolutionLaw, Form
from aisrv.inference.timings.operator_tensors import OperatorTensors
from aisrv.model import Model
from benchmarks.published_networks import PROFILES, person_detector, read_csv

NETWORKS: Final = ("vww", "csv")

_PERSON_TICKS: Final = 3_054_809
_CONVOLUTION_SLOTS: Final = 2_971_789 * 1.2
_NODE_SLOTS: Final = {41: 34_557 * 1.2, 42: 2_550 * 1.2, 43: 591 * 1.2}
_TWO_DEPTHWISE_SLOTS: Final = 55_553 * 1.2
"""Published of the person detector: all convolutions, three of them, and two depthwise ones together."""
_TWO_DEPTHWISE: Final = (19, 40)
_VECTOR: Final = 22
"""Slots of a vector, counted: 18 bundles, and 4.5 fetches of which one is under the branch."""
_BUS_BYTE_NS: Final = 80
"""Nanoseconds of a byte on a bus of four lines and 25 MHz, which is what flash takes at the least."""
_COPIED_TAP: Final = 50
"""Slots to copy the 16 bytes of a tap: a call, and four words. A guess."""


class LeftOut(NamedTuple):
    """The total of a network that the laws were not fitted to."""

    name: str
    published: int
    predicted: int
    low: int
    high: int

    @property
    def ticks(self) -> tuple[int, int, int, int]:
        """Published, predicted, and its band."""
        return self.published, self.predicted, self.low, self.high

    @property
    def is_inside(self) -> bool:
        """Whether the published total is in the band."""
        return self.low <= self.published <= self.high


class _Fit(NamedTuple):
    laws: Mapping[Form, ConvolutionLaw]
    layer: float
    guessed: frozenset[Form] = frozenset()


def left_out(name: str) -> LeftOut:
    """Fit without a network of NETWORKS, and predict it."""
    return _without_person_detector() if name == "vww" else _without_mobilenet()


def _convolutions(model: Model) -> Iterator[tuple[int, Convolution]]:
    for operator in model.operators:
        layer = convolution_of(OperatorTensors.of(model, operator))
        if operator.name == "XC_conv2d_v2" and layer is not None:
            yield operator.index, layer


def _total(
    name: str, published: int, model: Model, device: DeviceModel, fit: _Fit, others: Callable[[str], Band]
) -> LeftOut:
    """Predict a network: its convolutions by fitted laws, loads by the bus, and all else by the package's."""
    generation = device.generation or Generation.G2023
    predicted = low = high = 0.0
    layers = dict(_convolutions(model))
    for time in estimate_times(device, model):
        if time.name in FLASH_LOADS:
            size = sum(model.tensors[index].nbytes for index in model.operators[time.index].outputs)
            ticks, band = size * _BUS_BYTE_NS * device.tick_mhz / 1000, laws.ESTIMATE_BAND
        elif time.index in layers:
            layer = layers[time.index]
            count = fit.layer + slots(layer, Generation.G2022, fit.laws[layer.form])
            ticks = device.slot_ticks(count)
            band = laws.band_of(
                layer.form,
                generation,
                is_window_measured=layer.is_window_measured,
                is_wide=layer.taps > 1 and layer.depth > 4,
            )
            band = laws.ESTIMATE_BAND if layer.form in fit.guessed else band
        else:
            ticks, band = float(time.ticks), others(time.name)
        predicted, low, high = predicted + ticks, low + ticks * band.low, high + ticks * band.high
    return LeftOut(name, published, round(predicted), round(low), round(high))


def _without_person_detector() -> LeftOut:
    network = read_csv(PROFILES / "mobilenet_v1_025_128_2022.csv")
    layers = list(_convolutions(network.model))
    # The inner loop of all is that of `direct`, and `padded` computes as `indirect` does.
    names = ["layer", "vector", *((form, part) for form in Form for part in ("pixel", "group"))]
    rows, values = [], []
    for index, layer in layers:
        row = dict.fromkeys(names, 0.0)
        row["layer"] = 1.0
        # What the window adds was counted: only the rest is fitted.
        bare = replace(CONVOLUTIONS[layer.form], pixel=0, group=0, vector=0)
        row[layer.form, "pixel"] = layer.pixels
        row[_computes_as(layer.form), "group"] = layer.pixels * layer.groups
        if not layer.form.is_depthwise:
            vectors = layer.vectors - (not bare.counts_first_vector)
            row["vector"] = layer.pixels * layer.groups * vectors
        measured = network.ticks[index] / network.device.slot_ticks(1)
        rows.append([row[name] / measured for name in names])
        values.append(1 - slots(layer, Generation.G2022, bare) / measured)
    found = dict(zip(names, np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0], strict=True))
    fitted = {
        form: replace(
            CONVOLUTIONS[form],
            pixel=float(found[form, "pixel"]),
            group=float(found[_computes_as(form), "group"]),
            vector=float(found["vector"]) if CONVOLUTIONS[form].vector else 0.0,
        )
        for form in Form
    }
    fit = _Fit(fitted, float(found["layer"]))
    device = DeviceModel(generation=Generation.G2023)
    return _total(
        "total without its own figures",
        _PERSON_TICKS,
        person_detector(),
        device,
        fit,
        lambda _: laws.ESTIMATE_BAND,
    )


def _counted(layer: Convolution) -> float:
    """Slots of a layer that were counted: rows, vectors, and what a window adds to a copy."""
    if layer.form.is_depthwise:
        return laws.ROW * layer.height
    return slots(layer, Generation.G2022, replace(CONVOLUTIONS[layer.form], pixel=0, group=0, vector=_VECTOR))


def _computes_as(form: Form) -> Form:
    return Form.INDIRECT if form is Form.PADDED else form


def _without_mobilenet() -> LeftOut:
    layers = dict(_convolutions(person_detector()))
    dense = {index for index, layer in layers.items() if not layer.form.is_depthwise}
    equations = [
        (list(layers), _CONVOLUTION_SLOTS),
        (list(_TWO_DEPTHWISE), _TWO_DEPTHWISE_SLOTS),
        *(([index], value) for index, value in _NODE_SLOTS.items()),
    ]
    rows, values = [], []
    for indexes, measured in equations:
        members = [(index, layers[index]) for index in indexes]
        row = [
            float(len(members)),
            sum(layer.pixels for _, layer in members),
            sum(layer.pixels * layer.groups for index, layer in members if index in dense),
            sum(layer.pixels * layer.groups for index, layer in members if index not in dense),
        ]
        counted = sum(
            slots(
                layer, Generation.G2022, replace(CONVOLUTIONS[layer.form], pixel=0, group=0, vector=_VECTOR)
            )
            if index in dense
            else laws.ROW * layer.height
            for index, layer in members
        )
        rows.append([each / measured for each in row])
        values.append(1 - counted / measured)
    layer, pixel, group, depthwise = np.linalg.lstsq(np.array(rows), np.array(values), rcond=None)[0]
    fitted = {
        form: replace(law, pixel=float(pixel), group=float(group), vector=float(_VECTOR))
        for form, law in CONVOLUTIONS.items()
    }
    fitted[Form.PADDED] = replace(fitted[Form.PADDED], further_tap=_COPIED_TAP)
    window = {"further_tap": 0.0, "further_row": 0.0, "vector": 0.0, "outside_tap": 0.0}
    fitted[Form.DEPTHWISE] = replace(fitted[Form.DEPTHWISE], group=float(depthwise), **window)
    copied = float(depthwise) + 9 * _COPIED_TAP
    fitted[Form.DEPTHWISE_PADDED] = replace(fitted[Form.DEPTHWISE], group=copied)
    fit = _Fit(fitted, float(layer), frozenset({Form.PADDED, Form.DEPTHWISE_PADDED, Form.INDIRECT}))
    network = read_csv(PROFILES / "mobilenet_v1_025_128_2022.csv")
    return _total(
        "total without its own figures",
        sum(network.ticks),
        network.model,
        network.device,
        fit,
        lambda _: laws.ESTIMATE_BAND,
    )
