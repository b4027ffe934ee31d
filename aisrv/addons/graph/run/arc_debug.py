"""Debug commands of arcs at each write: count, time, measure, call, copy.

Registers have 64 bits, 16 of them a page. Those that measure count samples as 16-bit signed numbers unless
the arc's format is another known type.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from aisrv.addons.graph.errors import GraphError
from aisrv.addons.graph.nodes.arcs import ArcBuffer, Bytes

_WORD: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63
_SHARE: Final = 256

_ADD_SAMPLES, _CLEAR_BIT, _SET_BIT, _COUNT, _CALLBACK_0, _CALLBACK_1 = 1, 2, 3, 4, 6, 7
_TIME, _PEAK, _MEAN, _LEAST, _LEAST_ABSOLUTE, _COPY, _REWIND = 9, 10, 11, 12, 13, 14, 15

Callback = Callable[[int, int, int], None]


@dataclass(slots=True)
class ArcDebug:
    """The registers of a graph, and the commands of its arcs."""

    registers: list[int]
    arcs: tuple[ArcBuffer | None, ...]
    callbacks: Mapping[int, Callback]
    clock: Callable[[], float]

    def watch(self, arc: ArcBuffer, command: int, register: int, dtype: "np.dtype[Any]") -> None:
        """Run a command at each write of an arc. Raises GraphError for an unknown command."""
        if not command:
            return
        if register >= len(self.registers):
            raise GraphError(
                f"arc {arc.number} has debug register {register}, the graph has {len(self.registers)}"
            )
        act = _COMMANDS.get(command)
        if act is None:
            raise GraphError(f"arc {arc.number} has debug command {command}, which does not exist")
        arc.on_write = lambda data: act(self, arc, register, _samples(data, dtype))

    # One method for each command, with the samples just written.

    def add_samples(self, _arc: ArcBuffer, register: int, samples: "np.ndarray[Any, Any]") -> None:
        self.registers[register] = self.registers[register] + len(samples) & _WORD

    def count(self, _arc: ArcBuffer, register: int, _samples: "np.ndarray[Any, Any]") -> None:
        self.registers[register] = self.registers[register] + 1 & _WORD

    def clear_bit(self, _arc: ArcBuffer, register: int, _samples: "np.ndarray[Any, Any]") -> None:
        """Clear the bit that bits 63:59 name."""
        self.registers[register] &= ~(1 << (self.registers[register] >> 59))

    def set_bit(self, _arc: ArcBuffer, register: int, _samples: "np.ndarray[Any, Any]") -> None:
        """Set the bit that bits 63:59 name."""
        self.registers[register] |= 1 << (self.registers[register] >> 59)

    def call_0(self, arc: ArcBuffer, _register: int, samples: "np.ndarray[Any, Any]") -> None:
        """Call the application's function 0 with arc and bytes."""
        self._call(0, arc, samples)

    def call_1(self, arc: ArcBuffer, _register: int, samples: "np.ndarray[Any, Any]") -> None:
        """Call the application's function 1 with arc and bytes."""
        self._call(1, arc, samples)

    def _call(self, number: int, arc: ArcBuffer, samples: "np.ndarray[Any, Any]") -> None:
        callback = self.callbacks.get(number)
        if callback is not None:
            callback(arc.number, samples.nbytes, 0)

    def time(self, _arc: ArcBuffer, register: int, _samples: "np.ndarray[Any, Any]") -> None:
        """Take the time, q32.28 seconds."""
        self.registers[register] = int(self.clock() * (1 << 28)) & _WORD

    def peak(self, _arc: ArcBuffer, register: int, samples: "np.ndarray[Any, Any]") -> None:
        """Take the largest absolute value at once; sink to smaller ones by a 256th."""
        self._follow(register, int(abs(samples.astype(np.int64)).max(initial=0)), larger=True)

    def mean(self, _arc: ArcBuffer, register: int, samples: "np.ndarray[Any, Any]") -> None:
        """Follow the mean by a 256th."""
        if len(samples):
            self._follow(register, int(samples.astype(np.int64).sum()) // len(samples))

    def least(self, _arc: ArcBuffer, register: int, samples: "np.ndarray[Any, Any]") -> None:
        """Take the smallest value at once; rise to larger ones by a 256th."""
        if len(samples):
            self._follow(register, int(samples.min()), larger=False)

    def least_absolute(self, _arc: ArcBuffer, register: int, samples: "np.ndarray[Any, Any]") -> None:
        """Take the smallest absolute value at once; rise to larger ones by a 256th."""
        if len(samples):
            self._follow(register, int(abs(samples.astype(np.int64)).min()), larger=False)

    def _follow(self, register: int, value: int, larger: bool | None = None) -> None:
        old = (self.registers[register] ^ _SIGN) - _SIGN
        at_once = larger is not None and (value > old if larger else value < old)
        new = value if at_once else old + (value - old) // _SHARE
        self.registers[register] = new & _WORD

    def copy(self, _arc: ArcBuffer, register: int, samples: "np.ndarray[Any, Any]") -> None:
        """Copy the bytes to the arc that bits 10:0 name, if they have changed and fit."""
        number = self.registers[register] & 0x7FF
        target = self.arcs[number] if number < len(self.arcs) else None
        data = samples.view(np.uint8)
        if target is None or target is _arc or target.free < len(data):
            return
        last = target.buffer[max(0, target.write - len(data)) : target.write]
        if not np.array_equal(last, data):
            target.writable()[: len(data)] = data
            target.produce(len(data))

    def rewind(self, arc: ArcBuffer, _register: int, _samples: "np.ndarray[Any, Any]") -> None:
        """Read all of the buffer again if no frame is left."""
        if not arc.has_frame:
            arc.read = 0


_COMMANDS: Final[Mapping[int, Callable[[ArcDebug, ArcBuffer, int, "np.ndarray[Any, Any]"], None]]] = {
    _ADD_SAMPLES: ArcDebug.add_samples,
    _CLEAR_BIT: ArcDebug.clear_bit,
    _SET_BIT: ArcDebug.set_bit,
    _COUNT: ArcDebug.count,
    _CALLBACK_0: ArcDebug.call_0,
    _CALLBACK_1: ArcDebug.call_1,
    _TIME: ArcDebug.time,
    _PEAK: ArcDebug.peak,
    _MEAN: ArcDebug.mean,
    _LEAST: ArcDebug.least,
    _LEAST_ABSOLUTE: ArcDebug.least_absolute,
    _COPY: ArcDebug.copy,
    _REWIND: ArcDebug.rewind,
}


_SIGNED: Final = frozenset({_PEAK, _MEAN, _LEAST, _LEAST_ABSOLUTE})


def command_name(command: int) -> str:
    """Describe a command by its number."""
    act = _COMMANDS.get(command)
    return f"command {command}" if act is None else act.__name__.replace("_", " ")


def register_value(command: int, bits: int) -> int:
    """Return the number in a register of 64 `bits`: a signed one if its `command` measures samples."""
    return (bits ^ _SIGN) - _SIGN if command in _SIGNED else bits


def _samples(data: Bytes, dtype: "np.dtype[Any]") -> "np.ndarray[Any, Any]":
    return data[: len(data) // dtype.itemsize * dtype.itemsize].view(dtype)
