"""A convolution of XMOS's kernels, and its cost by the laws."""

import math
from typing import Self

from msgspec import Struct

from aisrv.inference.timings import laws
from aisrv.inference.timings.cost import NO_LINES, Basis, Conditions, Cost, Lines
from aisrv.inference.timings.generation import Generation
from aisrv.inference.timings.laws import GROUP, VECTOR, Form


class Convolution(Struct, frozen=True):
    """A layer: its output (`batch` images of `height` x `width` pixels), its window and its channels."""

    form: Form
    height: int
    width: int
    channels: int
    kernel: tuple[int, int] = (1, 1)
    depth: int = GROUP
    """Input channels of each output channel, 1 of a depthwise form."""
    batch: int = 1
    outside_taps: int = 0
    """Taps of all windows together that lie outside the image."""

    @classmethod
    def fully_connected(cls, rows: int, outputs: int, inputs: int) -> Self:
        """Create a fully connected layer: a pixel for each row of the batch."""
        return cls(Form.INDIRECT, 1, 1, outputs, depth=inputs, batch=rows)

    @property
    def pixels(self) -> int:
        return self.batch * self.height * self.width

    @property
    def taps(self) -> int:
        return self.kernel[0] * self.kernel[1]

    @property
    def groups(self) -> int:
        """Groups of 16 output channels."""
        return math.ceil(self.channels / GROUP)

    @property
    def products(self) -> int:
        """Products of an output value; input channels count in fours."""
        return self.taps * 4 * math.ceil(self.depth / 4)

    @property
    def vectors(self) -> int:
        """Vectors of 32 products of an output value."""
        if self.form is Form.DIRECT:
            return self.taps * math.ceil(self.depth / VECTOR)
        return max(math.ceil(self.products / VECTOR), 1)

    @property
    def chunks(self) -> int:
        """Copied pieces of 32 channels of a tap."""
        return math.ceil(self.depth / VECTOR)

    @property
    def is_window_measured(self) -> bool:
        """Return whether windows of this size were measured in this form."""
        if self.form.is_depthwise:
            return self.kernel == (3, 3)
        if self.form is Form.PADDED:
            return self.kernel == (3, 3) and self.depth <= 4
        return self.kernel == (1, 1)


def outside_taps(height: int, width: int, kernel: tuple[int, int], pads: tuple[int, int, int, int]) -> int:
    """Count taps outside the image, of all windows of stride 1; `pads` are top, left, bottom and right."""
    top, left, bottom, right = pads

    def inside(extent: int, size: int, before: int, after: int) -> int:
        total = extent * size
        return total - sum(range(1, before + 1)) - sum(range(1, after + 1))

    rows, columns = inside(height, kernel[0], top, bottom), inside(width, kernel[1], left, right)
    return max(0, height * kernel[0] * width * kernel[1] - max(rows, 0) * max(columns, 0))


def slots(each: Convolution, generation: Generation, law: laws.ConvolutionLaw | None = None) -> float:
    """Return the issue slots on one thread, apart from LAYER; by the law of its form, unless given."""
    law = law or laws.CONVOLUTIONS[each.form]
    taps, rows = each.taps - 1, each.kernel[0] - 1
    window = law.further_tap * taps + law.further_row * rows
    pixel = law.pixel + law.tap_chunk * each.taps * (each.chunks - 1)
    group = law.group + law.vector * (each.vectors - (not law.counts_first_vector))
    if law.taps_in_group:
        group += window
    else:
        pixel += window
    if generation is Generation.G2024:
        group += laws.GROUP_2024
    if each.form is Form.INDIRECT and not generation.is_early and each.pixels > 1:
        pixel += laws.INDIRECT_2023
    missing = law.missing_channel * (GROUP * each.groups - each.channels)
    work = each.pixels * (pixel + each.groups * group - missing)
    work += law.outside_tap * each.outside_taps * each.groups * each.batch
    return work + laws.ROW * each.height * each.batch


def parameter_lines(each: Convolution) -> Lines:
    """Return the lines of external memory of weights and multipliers, as they are read for each pixel."""
    channels = min(each.channels, GROUP)
    nbytes = GROUP * each.groups * each.taps if each.form.is_depthwise else each.channels * each.products
    nbytes += 4 * each.channels
    if each.form.is_depthwise:
        lines = each.groups * (each.taps * GROUP / VECTOR + 2 + 0.5)
    elif each.form is Form.DIRECT:
        lines = each.groups * (GROUP * each.vectors + 2)
    else:
        kernel = each.products / VECTOR
        last = each.channels - GROUP * (each.groups - 1)
        all_channels = GROUP * (each.groups - 1) + last
        lines = all_channels * (kernel if each.products <= VECTOR else kernel + 1)
        lines += 2 * (each.groups - 1) + 2 * channels / GROUP
    full = lines * each.pixels
    if nbytes > laws.CACHE_BYTES:
        return Lines.within(full, laws.PARAMETER_BAND)
    once = math.ceil(nbytes / VECTOR)
    return Lines(once, once * laws.PARAMETER_BAND.low, max(once, full * laws.CACHED_HIGH))


def uncached_parameter_lines(each: Convolution) -> Lines:
    """Return the same if activations go through the same cache, so that nothing stays in it."""
    lines = parameter_lines(each)
    if lines.count * laws.PARAMETER_BAND.high >= lines.high:
        return lines
    return Lines.within(lines.high / laws.CACHED_HIGH, laws.PARAMETER_BAND)


def arena_lines(each: Convolution) -> Lines:
    """Return the lines of external memory of the activations that a convolution reads, copies and writes."""
    group: float = laws.ARENA_OUTPUT + laws.ARENA_STRUCTURES
    pixel = 0.0
    if each.form is Form.DEPTHWISE:
        group += laws.ARENA_DEPTHWISE * each.taps / 9
    elif each.form is Form.DEPTHWISE_PADDED:
        group += laws.ARENA_DEPTHWISE_PADDED * each.taps / 9
    else:
        group += laws.ARENA_VECTOR * each.vectors
    if each.form in (Form.INDIRECT, Form.PADDED):
        pixel = laws.ARENA_COPY + each.taps * (
            laws.ARENA_COPY_TAP + laws.ARENA_COPY_CHUNK * (each.chunks - 1)
        )
    return Lines.within(each.pixels * (pixel + each.groups * group), laws.ARENA_BAND)


def memory_lines(each: Convolution, conditions: Conditions) -> Lines:
    lines = NO_LINES
    if conditions.external_arena:
        lines = arena_lines(each)
    if conditions.external_parameters:
        own = uncached_parameter_lines if conditions.external_arena else parameter_lines
        lines = lines.plus(own(each))
    return lines


def cost_of(each: Convolution, conditions: Conditions, *, before: tuple[Cost, ...] = ()) -> Cost:
    """Return the cost of a convolution; `before` are the pads that go before it."""
    generation, form = conditions.generation, each.form
    work = slots(each, generation)
    return Cost(
        laws.LAYER + work,
        _basis(each, generation),
        laws.band_of(
            form,
            generation,
            is_window_measured=each.is_window_measured,
            is_wide=each.taps > 1 and each.depth > 4,
        ),
        laws.CONVOLUTIONS[form].source,
        form=form.label,
        shared=work,
        image=(each.height, each.width),
        layer_slots=laws.THREADED_LAYER if each.pixels > 1 else 0,
        before=before,
        lines=memory_lines(each, conditions),
    )


def _basis(each: Convolution, generation: Generation) -> Basis:
    # The person detector of 2023 has these, as its sums.
    in_2023 = each.is_window_measured or (
        each.form is Form.INDIRECT and each.kernel == (3, 3) and each.depth <= 4
    )
    if not each.is_window_measured and not (in_2023 and not generation.is_early):
        return Basis.EXTRAPOLATED
    if generation is Generation.G2024:
        return Basis.CARRIED
    return Basis.MEASURED
