"""`sigp_stream_detector` (8): detects a signal above its noise floor.

A high-pass, an envelope with its floor and its peak, and two integrators decide; a counter holds it. One
16-bit sample comes out of a call, after all samples there: 0x7FFF while the gate is open, else 0.
"""

import struct
from collections.abc import Sequence
from typing import Final

import numpy as np

from aisrv.addons.graph.nodes.arcs import Bytes
from aisrv.addons.graph.nodes.frames import FrameReader, FrameWriter, as_stream
from aisrv.addons.graph.nodes.node import Moved, NodeError, NodeSetup, StreamNode, need_arcs, need_bytes
from aisrv.addons.graph.nodes.samples import need_type

OPEN: Final = 0x7FFF

PRESETS: Final = (*(bytes.fromhex("2C0803060B323460"),) * 5, bytes.fromhex("2C0604060B343680"))
THRESHOLD_TAG: Final = 4

_WRAP: Final = 1 << 31
_MASK: Final = (1 << 32) - 1


def minifloat(value: int) -> int:
    """Decode an 8-bit float: three bits, shifted by the other five."""
    return value >> 5 << (value & 31)


def _fraction(value: float) -> int:
    return int(0x7FFFFFFF * value)


_LOWEST: Final = _fraction(1e-4)
_HIGHEST: Final = _fraction(0.98)
_TENTH: Final = _fraction(0.1)
_HALF: Final = _fraction(0.5)
_Z7_FIRST: Final = _fraction(1e-3)
_Z_FIRST: Final = _fraction(1e-5)


def _wrapped(value: int) -> int:
    return (value + _WRAP & _MASK) - _WRAP


class Detector(StreamNode):
    """The detector; a warm boot keeps its floor z7 and peak z8, which are in the second memory segment."""

    def reset(self, setup: NodeSetup) -> None:
        need_arcs(setup, 1, 1)
        need_type(setup.inputs[0], "<i2")
        need_type(setup.outputs[0], "<i2")
        self._reader = FrameReader(as_stream(setup.inputs[0]))
        self._writer = FrameWriter(as_stream(setup.outputs[0]))
        if setup.preset >= len(PRESETS):
            raise NodeError(f"the detector has presets 0 to {len(PRESETS) - 1}, not {setup.preset}")
        self._retained: Bytes | None = None
        if len(setup.segments) > 1 and len(setup.segments[1]) >= 8:
            self._retained = setup.segments[1][:8]
        z7, z8 = _Z7_FIRST, _Z_FIRST
        if setup.warm_boot and self._retained is not None:
            kept = struct.unpack("<ii", self._retained.tobytes())
            if kept != (0, 0):
                z7, z8 = kept
        self._z1 = self._z6 = _Z_FIRST
        self._z7, self._z8 = z7, z8
        self._acc = self._flag = self._down = 0
        self._parameters = bytearray(8)
        self._decimation = -1
        self.set_parameter(0, PRESETS[setup.preset])

    def set_parameter(self, tag: int, data: bytes) -> None:
        """Take the eight bytes, or with tag 4 the threshold alone."""
        parameters = bytearray(self._parameters)
        if tag == 0:
            need_bytes(data, 8, "the parameters of a detector")
            parameters[:] = data[:8]
        elif tag == THRESHOLD_TAG:
            need_bytes(data, 1, "the threshold")
            parameters[7] = data[0]
        else:
            raise NodeError(f"unknown parameter {tag}: the detector has 0, the whole block, and 4")
        counter, decimation, hpf, lpf, floor_peak, rise, fall, threshold = parameters
        if hpf > 15 or max(decimation, lpf, floor_peak) > 30:
            raise NodeError(
                f"shifts {decimation}, {hpf}, {lpf}, {floor_peak}: the second is at most 15, others 30"
            )
        self._parameters = parameters
        self._hold = minifloat(counter)
        if decimation != self._decimation:
            self._decimation = decimation
            self._dec = self._mask = (1 << decimation) - 1
        self._hpf, self._lpf, self._fp = hpf, lpf, floor_peak
        self._rise, self._fall = minifloat(rise), minifloat(fall)
        self._threshold = minifloat(threshold)

    def read_parameter(self, tag: int) -> bytes:
        """Return 0 the floor, 1 the peak, 2 the peak over the floor with 8 fraction bits, as u32."""
        if tag == 0:
            value = self._z7
        elif tag == 1:
            value = self._z8
        elif tag == 2:
            value = (self._z8 << 8) // max(self._z7, 1)
        else:
            raise NodeError(f"unknown parameter {tag} to read: the detector has 0 to 2")
        return struct.pack("<I", value & _MASK)

    @property
    def state(self) -> tuple[int, int, int, int, int, int]:
        """The envelope's z6, floor z7, peak z8, integrators acc and flag, and the counter of the gate."""
        return self._z6, self._z7, self._z8, self._acc, self._flag, self._down

    def run(self, inputs: Sequence[Bytes], outputs: Sequence[Bytes]) -> Moved:
        samples = self._reader.read(inputs[0])
        self._detect(samples[:, 0].tolist())
        if self._retained is not None:
            self._retained[:] = memoryview(struct.pack("<II", self._z7 & _MASK, self._z8 & _MASK))
        decision = np.array([[OPEN if self._down > 0 else 0]], "<i2")
        produced = self._writer.write(decision, outputs[0])
        return Moved((self._reader.use(len(samples)),), (produced,))

    def _detect(self, samples: list[int]) -> None:
        z1, z6, z7, z8 = self._z1, self._z6, self._z7, self._z8
        acc, flag, down, dec = self._acc, self._flag, self._down, self._dec
        shift, hpf, lpf, fp, mask = 15 - self._hpf, self._hpf, self._lpf, self._fp, self._mask
        rise, fall, threshold, hold = self._rise, self._fall, self._threshold, self._hold
        high = _HIGHEST - rise - fall
        for v in samples:
            i = v << shift
            z2 = z1 - (z1 >> hpf) + i
            if not -_WRAP <= z2 < _WRAP:
                z2 = _wrapped(z1 - (z1 >> hpf) + _wrapped(i))
            z3 = z2 - z1
            if not -_WRAP <= z3 < _WRAP:
                z3 = _wrapped(z3)
            if z3 < 0:
                z3 = -z3
            z1 = z2
            z6 += (z3 >> lpf) - (z6 >> lpf)
            peak = z8 + (z6 >> fp) - (z8 >> fp)
            z8 = max(peak, z6)
            dec = mask & (dec - 1)
            if dec == 0:
                floor = z7 + (z6 >> fp) - (z7 >> fp)
                z7 = max(_LOWEST, min(z6, floor))
                dec = mask
            product = z7 * threshold
            if not -_WRAP <= product < _WRAP:
                product = _wrapped(product)
            acc = min(high, acc + rise) if z8 > product else max(_LOWEST, acc - fall)
            flag = min(high, flag + fall) if acc > _TENTH else max(_LOWEST, flag - rise)
            if down > 0:
                down -= 1
            if flag > _HALF:
                down = hold
        self._z1, self._z6, self._z7, self._z8 = z1, z6, z7, z8
        self._acc, self._flag, self._down, self._dec = acc, flag, down, dec
