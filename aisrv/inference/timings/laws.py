"""The laws: issue slots of XMOS's kernels, and times of flash and external memory.

XMOS's kernels take whole numbers of issue slots, the same in 2022 and 2023 for the same code. A core issues
once in max(5, n) core clocks, n the cores that run. Each law has its source, the range that it was measured
in, and the band that is left. Published runs: `published.py`. "Counted" is counted in the assembly of XMOS
lib_nn, in bundles.
"""

from collections.abc import Mapping
from enum import Enum
from typing import Final, NamedTuple

from msgspec import Struct

from aisrv.inference.timings.cost import Band, Basis
from aisrv.inference.timings.generation import Generation

GROUP: Final = 16
"""Output channels that the vector unit computes at once."""
VECTOR: Final = 32
"""int8 products that it adds up at once, and bytes of a line of external memory."""

MOBILENET_2022: Final = "published MobileNet of 2022"
MOBILENET_2021: Final = "published MobileNet of 2021, all in external memory"
PERSON_2023: Final = "published person detector of 2023"
PERSON_2024: Final = "published person detector of 2024"


class Form(Enum):
    """Forms of XMOS's convolution, as XMOS lib_nn has them; values are those of option `k`."""

    DIRECT = 0
    """No padding, channels in and out in whole vectors and groups: reads the image in place."""
    INDIRECT = 1
    """Copies the image under the window first; any channels, no padding."""
    PADDED = 2
    """INDIRECT with padding of its own."""
    DEPTHWISE = 3
    """A window for each channel, no padding."""
    DEPTHWISE_PADDED = 4
    """DEPTHWISE with padding of its own, by a copy for each tap and group."""

    @property
    def label(self) -> str:
        return self.name.lower().replace("_", " ")

    @property
    def is_depthwise(self) -> bool:
        return self in (Form.DEPTHWISE, Form.DEPTHWISE_PADDED)


class ConvolutionLaw(Struct, frozen=True):
    """Slots of a form: pixels x (pixel + groups x (group + vector x vectors)), apart from LAYER and ROW."""

    pixel: float
    group: float
    vector: float
    """Slots of each vector of products; only from the second on unless `counts_first_vector` is set."""
    counts_first_vector: bool
    further_tap: float
    """Slots of each tap but the first: of a pixel, or of a group if `taps_in_group` is set."""
    further_row: float
    """Slots of each row of taps but the first, likewise."""
    taps_in_group: bool
    tap_chunk: float
    """Slots of a pixel for each 32 channels of a tap but the first 32."""
    missing_channel: float
    """Slots less of a pixel for each channel that the last group has fewer than 16."""
    outside_tap: float
    """Slots of a group for each tap that lies outside the image."""
    source: str
    measured: str
    """Range that it was measured in."""


LAYER: Final = 405
"""Slots of each convolution, before the threads share it."""
ROW: Final = 10
"""Slots of each row of the output."""
THREADED_LAYER: Final = 600
"""Slots of each convolution that threads share, besides LAYER. An estimate."""

CONVOLUTIONS: Final[Mapping[Form, ConvolutionLaw]] = {
    Form.DIRECT: ConvolutionLaw(
        pixel=55, group=106, vector=22, counts_first_vector=True, further_tap=2, further_row=2,
        taps_in_group=True, tap_chunk=0, missing_channel=0, outside_tap=0,
        source=MOBILENET_2022, measured="11 layers of 1x1, 32 to 256 channels; larger windows counted",
    ),
    Form.INDIRECT: ConvolutionLaw(
        pixel=87, group=142, vector=22, counts_first_vector=False, further_tap=6, further_row=2,
        taps_in_group=False, tap_chunk=3, missing_channel=2, outside_tap=0,
        source=MOBILENET_2022, measured="2 layers of 1x1, 8 and 16 channels; larger windows counted",
    ),
    # Measured are 654.5 slots a pixel in all. 56 a tap, and 2 less for each of 8 channels that are missing,
    # make 652: the rest is of the pixel. One layer does not tell these parts from each other.
    Form.PADDED: ConvolutionLaw(
        pixel=58.5, group=142, vector=22, counts_first_vector=False, further_tap=56, further_row=0,
        taps_in_group=False, tap_chunk=3, missing_channel=2, outside_tap=0,
        source=MOBILENET_2022, measured="1 layer of 3x3, 4 channels to 8",
    ),
    Form.DEPTHWISE: ConvolutionLaw(
        pixel=40, group=132, vector=0, counts_first_vector=False, further_tap=3, further_row=2,
        taps_in_group=True, tap_chunk=0, missing_channel=0, outside_tap=0,
        source=MOBILENET_2022, measured="4 layers of 3x3; other windows counted",
    ),
    Form.DEPTHWISE_PADDED: ConvolutionLaw(
        pixel=40, group=215.6, vector=0, counts_first_vector=False, further_tap=55.8, further_row=0,
        taps_in_group=True, tap_chunk=0, missing_channel=0, outside_tap=5,
        source=MOBILENET_2022, measured="9 layers of 3x3; other windows are estimates",
    ),
}  # fmt: skip

INDIRECT_2023: Final = 26
"""Slots of a pixel of `indirect` from 2023 on: then the 29 layers of the person detector sum up."""
GROUP_2024: Final = -14
"""Slots of each group from 2024 on: one total. XMOS lib_nn 5828d36 replaced virtual calls."""


class Scalar(NamedTuple):
    """A law of slots for each unit of something."""

    per_unit: float
    fixed: float
    basis: Basis
    band: Band
    source: str


MEASURED_BAND: Final = Band(0.98, 1.02)
PAD_BAND: Final = Band(0.94, 1.06)
REFERENCE_BAND: Final = Band(0.85, 1.15)
ESTIMATE_BAND: Final = Band(0.5, 2.0)
UNCERTAIN: Final = Band(0.9, 1.1)
"""Addition of a file without a sign of its generation to the band of each operator."""

PAD_INPUT_ELEMENT: Final = 15.25
PAD_ADDED_ELEMENT: Final = 11.5
PAD_PIXEL: Final = 13.0
"""Reference PAD, of input elements, padding elements and output pixels: 5 layers, 0.35 % off at most."""

MEAN: Final = Scalar(139.3, 0, Basis.MEASURED, REFERENCE_BAND, MOBILENET_2022)
"""Reference MEAN of height and width: of an input element. One layer."""
CONV_2D_STEP: Final = Scalar(119, 0, Basis.MEASURED, REFERENCE_BAND, MOBILENET_2022)
"""Reference CONV_2D: of a multiply-accumulate. One layer of 1x1."""
DEPTHWISE_STEP: Final = Scalar(129.86, 0, Basis.MEASURED, REFERENCE_BAND, PERSON_2023)
"""Reference DEPTHWISE_CONV_2D: of a multiply-accumulate. Two layers of 3x3."""
SOFTMAX_2022: Final = Scalar(1145, 0, Basis.MEASURED, REFERENCE_BAND, MOBILENET_2022)
SOFTMAX_2023: Final = Scalar(1001, 0, Basis.MEASURED, REFERENCE_BAND, PERSON_2023)
"""Reference SOFTMAX: of a class; 10 of them in 2022, 2 in 2023."""
ELEMENT: Final = 130
"""More of each element behind the first that STRIDED_SLICE and PACK copy: as STEP, an estimate."""
STRIDED_SLICE: Final = Scalar(0, 1401, Basis.MEASURED, PAD_BAND, MOBILENET_2022)
PACK: Final = Scalar(67, 171, Basis.MEASURED, PAD_BAND, MOBILENET_2022)
SHAPE: Final = Scalar(6, 127, Basis.MEASURED, PAD_BAND, MOBILENET_2022)
RESHAPE: Final = Scalar(9, 170, Basis.MEASURED, PAD_BAND, MOBILENET_2022)
"""Slots of each, of an input, of a dimension, of a byte: two of each kind."""
STEP: Final = Scalar(130, 0, Basis.ESTIMATE, ESTIMATE_BAND, "130 slots a step of the innermost loop")
"""Any other reference kernel, as a depthwise convolution."""
PRODUCT_BAND: Final = Band(0.1, 2.0)
"""Band of a reference kernel whose innermost loop has no window to check: measured ones all had."""

PAD_3_TO_4: Final = Scalar(3.5, 135, Basis.MEASURED, PAD_BAND, PERSON_2023)
"""Slots of a pixel of `XC_pad_3_to_4`: 28 bundles for 8 pixels."""
XC_SOFTMAX: Final = Scalar(235, 0, Basis.MEASURED, REFERENCE_BAND, PERSON_2024)
"""`XC_softmax`: of a class; 2 classes."""
XC_PAD_ROW: Final = 128.88
XC_PAD_BYTE: Final = 0.1128
XC_PAD_FIXED: Final = 120
"""Slots of an input row, of an output byte, and of each `XC_pad`; one pad, and the sum of 14."""
LOOKUP: Final = Scalar(3.84, 0, Basis.MEASURED, PAD_BAND, "published lookup of 7,500 elements")
"""`XC_lookup`: of an element, shared by threads."""
XC_SLICE: Final = Scalar(0.3, 132, Basis.MEASURED, PAD_BAND, PERSON_2023)
"""`XC_strided_slice`: of a byte; one of 2 bytes, more are an estimate."""
XC_SLICE_2024: Final = Scalar(0.3, 232, Basis.MEASURED, PAD_BAND, PERSON_2024)
"""`XC_slice`, likewise."""
VIEW: Final = Scalar(0, 156, Basis.ESTIMATE, ESTIMATE_BAND, "as a reshape")
_CALL: Final = 420
"""Slots of an operator of XMOS besides its work. A guess."""
MOVE: Final = Scalar(0.3, _CALL, Basis.ESTIMATE, ESTIMATE_BAND, "bytes moved")
"""Any other operator of XMOS: of a byte of activations that it reads or writes. A guess."""
COPY: Final = 50
"""More of each piece that is copied by itself: a call, and what is before and behind whole words. A guess."""

# Counted, with a fifth more for the fetches that loads and stores block; nothing was measured of these.
ADD: Final = Scalar(2.6, _CALL, Basis.ESTIMATE, ESTIMATE_BAND, "35 bundles counted for 16 elements")
"""`XC_add` and `XC_mul`: of an element."""
EXPAND: Final = Scalar(0.3, _CALL, Basis.ESTIMATE, ESTIMATE_BAND, "4 bundles counted for 16 elements")
"""`XC_expand_8_to_16`: of an element."""
SIGN: Final = Scalar(0.2, _CALL, Basis.ESTIMATE, ESTIMATE_BAND, "5 bundles counted for 32 elements")
"""`XC_bsign_8`: of an element."""
INT16: Final = Scalar(10, _CALL, Basis.ESTIMATE, Band(0.2, 2.0), "8 bundles counted for an element")
"""`XC_binaryi16` and `XC_unaryi16`: of an element; sums take a quarter of it."""
XC_MEAN: Final = Scalar(7, _CALL, Basis.ESTIMATE, ESTIMATE_BAND, "counted in C")
"""`XC_mean`: of an input element..."""
XC_MEAN_OUTPUT: Final = 100
"""...and of an output element, which is scaled and rounded as a float."""
FLOAT_FUNCTION: Final = Scalar(150, _CALL, Basis.ESTIMATE, ESTIMATE_BAND, "an exponential of each element")
"""`XC_beta_activationf32`: of an element. A guess."""
FLOAT_PRODUCT: Final = Scalar(3, _CALL, Basis.ESTIMATE, ESTIMATE_BAND, "two loads and a sum of each product")
"""Other operators of XMOS on floats: of a product. A guess."""

FLASH_SERVER_LOAD: Final = 2272
FLASH_SERVER_BYTE: Final = 142
FLASH_SERVER_SPREAD: Final = 720
"""Core clocks of each byte through the flash server, and the largest error: 54 loads."""
FAST_FLASH_BYTE: Final = 21.0
"""Nanoseconds of a byte in fast flash, whatever the core clock: 459,310 ticks for about 219 kB in 2024."""

LINE_CLOCKS: Final = 27
"""Clocks of the external memory for a line of 32 bytes: one layer of 1x1 with its parameters there."""
EXTERNAL_DIVIDER: Final = 8
"""Core clocks in one of the external memory by default (XN files of XMOS)."""
CACHE_BYTES: Final = 256
"""Weights and multipliers that are read once a layer: 8 lines. An estimate (`xcore/minicache.h`)."""
PARAMETER_BAND: Final = Band(0.9, 1.15)
CACHED_HIGH: Final = 1.5
"""Factor of the full cost up to which a layer may go whose parameters should stay in the cache."""
ARENA_BAND: Final = Band(0.7, 1.5)

# Lines of a pixel and group where activations lie in external memory: fitted to the 31 layers of the network
# of 2021, where tensors lie across lines, so that a vector is two of them.
ARENA_VECTOR: Final = 2
ARENA_DEPTHWISE: Final = 18
ARENA_DEPTHWISE_PADDED: Final = 27
ARENA_OUTPUT: Final = 2
ARENA_STRUCTURES: Final = 7
ARENA_COPY: Final = 5
"""Lines of a pixel that is copied first."""
ARENA_COPY_TAP: Final = 1
"""Lines of each tap of it."""
ARENA_COPY_CHUNK: Final = 3
"""Lines of each 32 channels of a tap but the first 32."""
ARENA_OPERATOR: Final = 15
"""Lines of any other operator: 8 such operators."""
ARENA_SHAPE: Final = 10
"""Lines of SHAPE, which reads no data: 2 of them."""
ARENA_MOVED_LINE: Final = 0.35
"""Lines for each 32 bytes that another operator reads or writes: 5 pads."""
ARENA_STEP: Final = {"MEAN": 0.285, "CONV_2D": 0.12}
"""Lines of each step of a reference kernel: one layer each."""
ARENA_OTHER_STEP: Final = 0.2
"""Lines of each step of other reference kernels, an estimate."""


def band_of(form: Form, generation: Generation, *, is_window_measured: bool, is_wide: bool) -> Band:
    """Return the band of a convolution's slots.

    `is_window_measured` is whether the window has the size of those that were measured, `is_wide` whether it
    is larger than 1x1 and has more than 4 channels.
    """
    if form is Form.DIRECT:
        return MEASURED_BAND if is_window_measured else Band(0.95, 1.08)
    if form.is_depthwise:
        if not generation.is_early:
            return Band(0.92, 1.37)
        return MEASURED_BAND if is_window_measured else Band(0.85, 1.15)
    if is_wide:
        return Band(0.85, 1.10)
    if generation.is_early:
        return MEASURED_BAND if is_window_measured else Band(0.85, 1.10)
    return Band(0.88, 1.04)
