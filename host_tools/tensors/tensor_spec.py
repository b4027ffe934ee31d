"""Meaning of a tensor's bytes: shape, element type and quantization.

A quantized tensor holds integers that stand for real numbers: real = scale * (integer - zero point). Real
numbers are quantized as TensorFlow Lite's QUANTIZE operator does it: divided by the scale in float32, rounded
half away from zero, the zero point added, clipped to the type.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias

from host_tools.errors import TensorError

if TYPE_CHECKING:
    import numpy.typing as npt

    from aisrv.model import Tensor

    Array: TypeAlias = npt.NDArray[Any]

DTYPES: Final = ("int8", "uint8", "int16", "int32", "int64", "float32")
"""Element types that a tensor may have here, named as in NumPy."""


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """Meaning of a tensor's bytes. `scale` is None if it holds no quantized real numbers.

    `data` and `floats` of its methods are all bytes of a tensor.
    """

    shape: tuple[int, ...]
    """Elements of each dimension."""
    dtype: str = "int8"
    """Type of an element, by NumPy's name."""
    scale: float | None = None
    zero_point: int = 0
    """The integer that stands for 0."""
    name: str = ""
    """Name of the tensor in the model."""

    @property
    def nbytes(self) -> int:
        """Bytes of the tensor."""
        import numpy as np

        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read a `text` such as `1x96x96x3` or `1x96x96x3:uint8`; int8 by default. Else a TensorError."""
        shape, _, dtype = text.partition(":")
        parts = shape.split("x")
        if not all(part.isascii() and part.isdigit() for part in parts):
            raise TensorError(f"{text!r} is not a shape; write it as 1x96x96x3 or 1x96x96x3:uint8")
        if dtype and dtype not in DTYPES:
            raise TensorError(f"{text!r}: {dtype!r} is not one of the types {', '.join(DTYPES)}")
        return cls(tuple(int(part) for part in parts), dtype or "int8")

    @classmethod
    def of(cls, tensor: "Tensor") -> Self:
        """Return what a model file says of a tensor; TensorError for a type that is not converted here."""
        dtype = tensor.type.name.lower()
        if dtype not in DTYPES:
            raise TensorError(f"tensor {tensor.name!r} has type {tensor.type.name}; give raw bytes for it")
        quantization = tensor.quantization
        if quantization is None or quantization.is_per_channel or dtype == "float32":
            return cls(tensor.shape, dtype, name=tensor.name)
        return cls(tensor.shape, dtype, quantization.scale, quantization.zero_point, tensor.name)

    def __str__(self) -> str:
        return f"{self.dtype}[{', '.join(map(str, self.shape))}]"

    # Real numbers

    def quantize(self, real: "Array") -> "Array":
        """Quantize real numbers; TensorError without quantization, or where one is not finite."""
        import numpy as np

        dtype: np.dtype[Any] = np.dtype(self.dtype)
        if dtype.kind == "f":
            with np.errstate(over="ignore"):  # what is beyond the type becomes infinite
                return real.astype(dtype)
        if self.scale is None:
            raise TensorError(f"the tensor is {self} without quantization: real numbers have no place in it")
        if not np.isfinite(real).all():
            raise TensorError("the array has values that are not finite")
        with np.errstate(over="ignore"):  # infinity saturates, too
            steps = real.astype(np.float32) / np.float32(self.scale)
        limits = np.iinfo(dtype)
        whole = np.trunc(steps.astype(np.float64) + np.copysign(0.5, steps)) + self.zero_point
        elements: Array = np.clip(whole, limits.min, limits.max).astype(dtype)
        return elements

    def values(self, data: bytes) -> "Array":
        """Return the tensor's elements as real numbers, or as its integers where it is not quantized."""
        elements = self.elements(data)
        if self.scale is None:
            return elements
        import numpy as np

        real: Array = (elements.astype(np.float64) - self.zero_point) * self.scale
        return real

    # Tensors as float32, as they cross a Jacdac bus

    def as_floats(self) -> "TensorSpec":
        """Return what the tensor is as float32."""
        return TensorSpec(self.shape, "float32", name=self.name)

    def to_floats(self, data: bytes) -> bytes:
        """Return the tensor's elements as float32, little-endian."""
        return self.values(data).astype("<f4").tobytes()

    def from_floats(self, floats: bytes) -> bytes:
        """Return the bytes of the tensor for float32 numbers; the reverse of `to_floats`."""
        import numpy as np

        real = np.frombuffer(floats, "<f4")
        quantized = self.scale is not None or self.dtype == "float32"
        elements = self.quantize(real) if quantized else np.rint(real).astype(self.dtype)
        return elements.astype(elements.dtype.newbyteorder("<")).tobytes()

    def elements(self, data: bytes) -> "Array":
        """Return the tensor as an array of its shape; TensorError for another number of bytes."""
        import numpy as np

        if len(data) != self.nbytes:
            raise TensorError(f"the tensor is {self}, {self.nbytes} bytes, not {len(data)}")
        return np.frombuffer(data, np.dtype(self.dtype).newbyteorder("<")).reshape(self.shape)
