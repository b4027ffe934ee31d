"""The convolution in an `XC_conv2d_v2` of a converted file.

Its options tell the form and the window. From 2022-02-24 on: `k` (first `kt`) is the form, `a` (first `aggp`)
describes the products, and `mp` the copy. Before: `threads` has the blobs of each thread, whose sizes tell
the form. If options cannot be read, shapes tell.
"""

import math
import struct
from typing import Final

from aisrv.inference.timings.convolution import Convolution, outside_taps
from aisrv.inference.timings.laws import GROUP, VECTOR, Form
from aisrv.inference.timings.operator_tensors import Images, OperatorTensors
from aisrv.model.custom_options import CustomOptions

_DIRECT_BLOB: Final = 24
_DEPTHWISE_BLOB: Final = 20
_PADDED_COPY: Final = 64
_GENERIC_BLOB: Final = 8
_OWN_PADDING: Final = 3, 3
"""Assumed window of a kernel that pads: without a window there would be no padding."""
_LARGEST_WINDOW: Final = 4096
"""Taps of a side of a window that a blob can tell; more is no window."""


def convolution_of(node: OperatorTensors) -> Convolution | None:
    """Read a convolution; None for shapes that have no meaning."""
    images, weights = Images.of(node, flat=True), node.input(1)
    if images is None or weights is None or not images.output[3] or not images.data[3]:
        return None
    form, kernel = _form_and_window(node, images)
    by_shapes = _by_shapes(images, weights.nbytes, early=_is_early(node))
    form, kernel = form or by_shapes[0], kernel or by_shapes[1]
    batch, height, width, channels = images.output
    padding = max(0, height - images.data[1] + kernel[0] - 1), max(0, width - images.data[2] + kernel[1] - 1)
    pads = (padding[0] // 2, padding[1] // 2, -(-padding[0] // 2), -(-padding[1] // 2))
    is_padded = form is Form.DEPTHWISE_PADDED and (height, width) == images.data[1:3]
    return Convolution(
        form,
        height,
        width,
        channels,
        kernel=kernel,
        depth=1 if form.is_depthwise else _bytes_of(node, images.data[3]),
        batch=batch,
        outside_taps=outside_taps(height, width, kernel, pads) if is_padded else 0,
    )


def _bytes_of(node: OperatorTensors, channels: int) -> int:
    """Bytes of a pixel: a vector has 32 of them, be they int8, int16, or words of 32 binary channels."""
    data = node.input(0)
    return channels if data is None else max(1, channels * data.type.bits // 8)


def _options(node: OperatorTensors) -> CustomOptions | None:
    try:
        return CustomOptions.from_bytes(node.operator.custom_options)
    except ValueError:
        return None


def _is_early(node: OperatorTensors) -> bool:
    """Check whether the weights are packed as the tools of 2022 do: with half as much again, and more."""
    options = _options(node)
    try:
        return options is None or not options.names & {"k", "kt"}
    except ValueError:
        return True


def _form_and_window(node: OperatorTensors, images: Images) -> tuple[Form | None, tuple[int, int] | None]:
    """Return form and window from the options, None for what they do not tell."""
    options = _options(node)
    if options is None:
        return None, None
    try:
        threads = options.first_data("threads")
        if threads:
            return _from_threads(threads, images)
        number = options.integer("k", "kt")
        if number not in [form.value for form in Form]:
            return None, None
        form = Form(number)
        products, copy = options.data("a", "aggp"), options.data("mp")
    except ValueError:
        return None, None
    if form in (Form.INDIRECT, Form.PADDED):
        return form, _generic_window(products or b"", copy or b"", images)
    return form, _window(products or b"", 1)


def _from_threads(blobs: tuple[bytes, ...], images: Images) -> tuple[Form, tuple[int, int] | None]:
    """Return form and window from the sizes of a thread's blobs: of the products, and of the copy."""
    by_size = {len(blob): blob for blob in blobs}
    is_padded = _PADDED_COPY in by_size
    if _DIRECT_BLOB in by_size:
        return Form.DIRECT, _window(by_size[_DIRECT_BLOB], 1)
    if _DEPTHWISE_BLOB in by_size:
        form = Form.DEPTHWISE_PADDED if is_padded else Form.DEPTHWISE
        return form, _window(by_size[_DEPTHWISE_BLOB], 1)
    # The first blob is the kernel's, the second the copy's; the products are told before the output.
    copy = blobs[1] if len(blobs) > 1 else b""
    generic = [_generic_window(blob, copy, images) for blob in blobs[2:] if len(blob) == _GENERIC_BLOB]
    window = next((each for each in generic if each is not None), None)
    if is_padded:
        return Form.PADDED, window or _OWN_PADDING
    return Form.INDIRECT, window


def _window(blob: bytes, at: int) -> tuple[int, int] | None:
    """Return height and width of a window, of which a blob has one less in two words; None for no window."""
    if len(blob) < 4 * (at + 2):
        return None
    height, width = (1 + each for each in struct.unpack_from("<2i", blob, 4 * at))
    if not (1 <= height <= _LARGEST_WINDOW and 1 <= width <= _LARGEST_WINDOW):
        return None
    return height, width


def _generic_window(products: bytes, copy: bytes, images: Images) -> tuple[int, int] | None:
    """Return the window of a generic kernel, whose products have an output channel's bytes as second word."""
    if len(products) != _GENERIC_BLOB:
        return None
    (nbytes,) = struct.unpack_from("<i", products, 4)
    copied = _window(copy, 2)
    taps = nbytes / images.data[3]
    if copied is not None and copied[0] * copied[1] == taps:
        return copied
    return _square_of(taps) if taps <= _LARGEST_WINDOW else None


def _square_of(taps: float) -> tuple[int, int] | None:
    if taps < 1 or taps != int(taps):
        return None
    side = math.isqrt(int(taps))
    return (side, side) if side * side == taps else (1, int(taps))


def _by_shapes(images: Images, nbytes: int, *, early: bool) -> tuple[Form, tuple[int, int]]:
    """Return form and window from shapes and the bytes of the weights."""
    channels_in, channels = images.data[3], images.output[3]
    padded = GROUP * math.ceil(channels / GROUP)
    same_size = images.data[1:3] == images.output[1:3]
    # Weights of a whole group for all channels take 512 bytes and more.
    is_distinct = padded > GROUP or nbytes < GROUP * VECTOR
    if channels_in == channels and is_distinct and nbytes > 16 and (nbytes - 16) % padded == 0:
        kernel = _square_of((nbytes - 16) // padded) or (1, 1)
        is_padded = same_size and kernel != (1, 1)
        return (Form.DEPTHWISE_PADDED if is_padded else Form.DEPTHWISE), kernel
    products = max(nbytes - (padded - channels) * VECTOR, 1) // channels
    taps = _square_of(max(1, round(products / channels_in))) or (1, 1)
    if channels_in % VECTOR == 0 and channels % GROUP == 0:
        # Files of 2022 have them twice as long as they are read.
        return Form.DIRECT, (1, 1) if same_size else taps
    if channels_in <= 4 and not same_size:
        reach = images.data[1] / max(images.output[1], 1)
        return (Form.PADDED if early and reach == int(reach) else Form.INDIRECT), (3, 3)
    return Form.INDIRECT, (1, 1) if same_size else taps
