"""Examples as rows: the bytes of all input tensors, one after another."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import numpy.typing as npt

from aisrv.addons.evaluate.data.data_set import Array, DataSet
from aisrv.addons.evaluate.data.files import SOUNDS
from aisrv.addons.evaluate.errors import InputError
from aisrv.addons.evaluate.inputs.pictures import Pixels, check_pillow, decoded, fitted
from aisrv.addons.evaluate.inputs.settings import InputSettings, Kind, default_settings
from aisrv.addons.evaluate.inputs.sounds import SoundInput
from aisrv.model import Model
from aisrv.model.metadata import input_metadata
from host_tools.errors import TensorError
from host_tools.tensors.images import FULL, covered_range, image_shape, pixels_to_elements
from host_tools.tensors.npy import parse_npy
from host_tools.tensors.tensor_spec import TensorSpec

Rows = npt.NDArray[np.uint8]
"""[examples, bytes of a row]."""

_PICTURE_SIDES: Final = 2
"""Dimensions that a picture has at least."""


def input_settings(
    model: Model, specs: Sequence[TensorSpec], data: DataSet, given: dict[int, InputSettings]
) -> tuple[InputSettings, ...]:
    """Return the settings of each input: those `given` by number, else of the metadata, with their kinds.

    `specs` are the model's inputs. InputError for a kind that the data are not.
    """
    metadata = input_metadata(model)
    found = []
    for number, spec in enumerate(specs):
        said = metadata[number] if number < len(metadata) else None
        settings = given.get(number) or default_settings(said)
        found.append(replace(settings, kind=_kind(settings, spec, data, number)))
    return tuple(found)


def _kind(settings: InputSettings, spec: TensorSpec, data: DataSet, number: int) -> Kind:
    if data.arrays:
        array = data.arrays[number]
        if settings.kind == "audio" or (settings.kind is None and settings.frontend):
            raise InputError("sound is read from WAV files, not from arrays")
        if settings.kind is not None and not (settings.kind == "image" and array.dtype != np.uint8):
            return settings.kind
        if _is_raw(array, spec):
            return "raw"
        is_picture = array.dtype == np.uint8 and array.ndim > _PICTURE_SIDES and _has_image_shape(spec)
        return "image" if is_picture else "array"
    if settings.kind is not None:
        return settings.kind
    first = data.files[0]
    suffix = "" if isinstance(first, bytes) else first.suffix.lower()
    if suffix == ".npy":
        return "array"
    return "audio" if suffix in SOUNDS or settings.frontend else "image"


def _is_raw(array: Array, spec: TensorSpec) -> bool:
    """Return whether elements of an array are those of the tensor: of its type, but for pixels of bytes."""
    same = array.dtype == np.dtype(spec.dtype).newbyteorder("<") and array[0].nbytes == spec.nbytes
    pixels = array.dtype == np.uint8 and spec.scale is not None and _has_image_shape(spec)
    return same and not pixels


def _has_image_shape(spec: TensorSpec) -> bool:
    try:
        image_shape(spec)
    except TensorError:
        return False
    return True


class Preparation:
    """Makes rows of examples, by settings with their kinds."""

    def __init__(self, specs: Sequence[TensorSpec], settings: Sequence[InputSettings]) -> None:
        """Take the model's inputs and their settings; InputError, or ExtraError without Pillow."""
        self.specs: Final = tuple(specs)
        self.settings: Final = tuple(settings)
        self.row_bytes: Final = sum(spec.nbytes for spec in specs)
        """Bytes of all input tensors."""
        if any(each.kind == "image" for each in settings):
            check_pillow()
        pairs = list(zip(specs, settings, strict=True))
        self._shapes = [_shape(spec, each) if each.kind == "image" else (0, 0, 0) for spec, each in pairs]
        self._sounds = [SoundInput(each, spec) if each.kind == "audio" else None for spec, each in pairs]

    @property
    def is_raw(self) -> bool:
        """Return whether the one input's arrays are its rows as they are."""
        return [each.kind for each in self.settings] == ["raw"]

    def file_row(self, data: bytes) -> bytes:
        """Return the row of an example that is a file, for a model of one input; InputError.

        `data` are the file's bytes.
        """
        if len(self.specs) != 1:
            raise InputError(f"the model has {len(self.specs)} inputs: give arrays, as in an .npz file")
        spec, settings, sounds = self.specs[0], self.settings[0], self._sounds[0]
        try:
            if sounds is not None:
                return sounds.tensor(data)
            if settings.kind == "image":
                pixels = decoded(data, settings, self._shapes[0])
                return self._elements(0, pixels[None]).tobytes()
            return self._array_rows(parse_npy(data)[None], spec, settings).tobytes()
        except (TensorError, ValueError) as error:
            raise InputError(str(error)) from None

    def array_rows(self, arrays: Sequence[Array]) -> Rows:
        """Return the rows of examples in arrays, one array for each input; InputError."""
        try:
            parts = [self._input_rows(number, array) for number, array in enumerate(arrays)]
        except TensorError as error:
            raise InputError(str(error)) from None
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _input_rows(self, number: int, array: Array) -> Rows:
        spec, settings = self.specs[number], self.settings[number]
        if settings.kind != "image":
            return self._array_rows(array, spec, settings)
        if array.ndim < 3 or array.ndim > 4:
            raise InputError(f"pictures in an array have the shape {list(array.shape[1:])}")
        shape = self._shapes[number]
        pixels = array if array.ndim == 4 else array[..., None]
        is_plain = pixels.shape[1:] == shape and settings.color == "rgb" and settings.crop == "none"
        if not is_plain:
            pixels = np.stack([self._picture(each, settings, shape) for each in pixels])
        elif settings.invert:
            pixels = 255 - pixels
        return _bytes(self._elements(number, pixels), len(array))

    def _picture(self, pixels: Pixels, settings: InputSettings, shape: tuple[int, int, int]) -> Pixels:
        from PIL import Image

        return fitted(Image.fromarray(np.ascontiguousarray(np.squeeze(pixels))), settings, shape)

    def _elements(self, number: int, pixels: Pixels) -> Array:
        """Return pixels [examples, height, width, channels] as elements of the tensor, in its layout."""
        spec, settings = self.specs[number], self.settings[number]
        if settings.mean:
            real = (pixels.astype(np.float64) - settings.mean) / settings.std
            elements = spec.quantize(real)
        else:
            elements = pixels_to_elements(_rounded(pixels, spec, settings), spec, settings.range)
        elements = elements.astype(elements.dtype.newbyteorder("<"))
        return np.ascontiguousarray(elements.transpose(0, 3, 1, 2)) if settings.layout == "nchw" else elements

    def _array_rows(self, array: Array, spec: TensorSpec, settings: InputSettings) -> Rows:
        """Return arrays as they are, or real numbers quantized; a mean and a deviation count before that."""
        count = len(array)
        if array.size != count * int(np.prod(spec.shape)):
            raise InputError(f"examples have the shape {list(array.shape[1:])}, the tensor is {spec}")
        if settings.kind == "raw":
            if array.dtype.itemsize != np.dtype(spec.dtype).itemsize:
                raise InputError(f"raw examples have {array.dtype}, the tensor is {spec}")
            return _bytes(np.ascontiguousarray(array), count)
        if settings.mean:
            array = (array.astype(np.float64) - settings.mean) / settings.std
        if array.dtype == np.dtype(spec.dtype) or spec.scale is None:
            elements = array.astype(spec.dtype)
        else:
            elements = spec.quantize(array.astype(np.float64))
        return _bytes(elements.astype(elements.dtype.newbyteorder("<")), count)


def _rounded(pixels: Pixels, spec: TensorSpec, settings: InputSettings) -> Pixels:
    """Return pixels as `pixels_to_elements` takes them: bytes where it fills the whole type."""
    fills = settings.range == FULL or (settings.range == "auto" and covered_range(spec) == FULL)
    return np.rint(pixels).astype(np.uint8) if fills and pixels.dtype != np.uint8 else pixels


def _shape(spec: TensorSpec, settings: InputSettings) -> tuple[int, int, int]:
    """Return height, width and channels of a tensor that is an image, in either layout; InputError."""
    try:
        if settings.layout == "nhwc":
            return image_shape(spec)
        shape = spec.shape[1:] if len(spec.shape) == 4 else spec.shape
        return image_shape(replace(spec, shape=(*shape[1:], shape[0])))
    except TensorError as error:
        raise InputError(str(error)) from None


def _bytes(elements: Array, count: int) -> Rows:
    return np.ascontiguousarray(elements).reshape(count, -1).view(np.uint8)
