"""Resource variables: memory that operators read and assign by name, and that stays from run to run.

Source: TensorFlow Lite Micro, `micro_resource_variable.cc`: a variable is made with the size of the first
tensor that is read from it or assigned to it, and starts with the byte of that tensor's zero point.
"""

from typing import Final

from aisrv.kernels.graph.errors import GraphError
from aisrv.kernels.params import Buffer


class Variables:
    """The variables of one graph by name."""

    def __init__(self, nbytes: int) -> None:
        """Start without any; all of them together may take `nbytes`."""
        self._left = nbytes
        self._values: Final[dict[str, Buffer]] = {}
        self._handles: Final[dict[int, str]] = {}

    def name(self, handle: int, variable: str) -> None:
        """Register a tensor as the handle of a variable."""
        self._handles[handle] = variable

    def of(self, handle: int, nbytes: int, first: int) -> Buffer:
        """The bytes of the variable that a tensor stands for, each `first` in the beginning; GraphError."""
        variable = self._handles.get(handle)
        if variable is None:
            raise GraphError(f"tensor {handle} is not a handle of a variable")
        return self.named(variable, nbytes, first)

    def named(self, variable: str, nbytes: int, first: int) -> Buffer:
        """The bytes of a variable by its name; GraphError where it has another size."""
        value = self._values.get(variable)
        if value is None:
            self._left -= nbytes
            if self._left < 0:
                raise GraphError(f"variable {variable!r} of {nbytes} bytes does not fit the memory")
            value = memoryview(bytearray([first & 0xFF]) * nbytes).cast("b")
            self._values[variable] = value
        if len(value) != nbytes:
            raise GraphError(f"variable {variable!r} has {len(value)} bytes, {nbytes} are read or assigned")
        return value
