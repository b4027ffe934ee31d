"""`arm_stream_amplifier` (5): a gain that slides to its target, with mute and delays.

The gain is m*2^-(e+2), m in bits 11:4 and e in bits 3:0: 0x805 is 0 dB. It has 32 fraction bits and moves by
(target - gain) >> slope with each sample, at least 1 upwards; y = sat16((x*gain) >> 32).
"""

import struct
from typing import Final

import numpy as np

from aisrv.addons.graph.nodes.frames import SampleNode, Samples
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup, need_bytes
from aisrv.addons.graph.nodes.samples import need_type

UNITY: Final = 0x805
_BLOCK: Final = struct.Struct("<BHBHH")
_FIELDS: Final = {1: "<B", 2: "<H", 3: "<B", 4: "<H", 5: "<H"}
_MOST_SLOPE: Final = 15


def gain_of(code: int) -> int:
    """Decode a gain of 12 bits to one with 32 fraction bits."""
    return (code >> 4 & 0xFF) << 30 >> (code & 15)


class Amplifier(SampleNode):
    """Parameters 1 to 5: slope, gain, mute, delay up and delay down in samples; 0 is all of them."""

    def reset(self, setup: NodeSetup) -> None:
        """Begin silent, with the target at 0 dB."""
        super().reset(setup)
        need_type(setup.inputs[0], "<i2")
        need_type(setup.outputs[0], "<i2")
        self._gain = 0
        self._target = 0
        self._next_target = 0
        self._delay = 0
        self._values = [0, UNITY, 0, 0, 0]
        self._aim()

    def set_parameter(self, tag: int, data: bytes) -> None:
        values = list(self._values)
        if tag == 0:
            need_bytes(data, _BLOCK.size, "the parameters of an amplifier")
            values = list(_BLOCK.unpack_from(data))
        elif tag in _FIELDS:
            need_bytes(data, struct.calcsize(_FIELDS[tag]), f"parameter {tag} of an amplifier")
            values[tag - 1] = struct.unpack_from(_FIELDS[tag], data)[0]
        else:
            raise NodeError(f"unknown parameter {tag}: the amplifier has 0 to 5")
        if values[0] > _MOST_SLOPE:
            raise NodeError(f"a slope of {values[0]}, at most {_MOST_SLOPE}")
        self._values = values
        self._aim()

    def _aim(self) -> None:
        """Take a new target, which holds after its delay."""
        _, code, mute, up, down = self._values
        target = 0 if mute else gain_of(code)
        if target == self._next_target:
            return
        self._next_target = target
        self._delay = up if target > self._gain else down
        if not self._delay:
            self._target = target

    def process(self, samples: Samples) -> Samples:
        gains = self._gains(len(samples))
        amplified: Samples = np.clip(samples * gains[:, None] >> 32, -32768, 32767)
        return amplified

    def _gains(self, count: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        gains = np.empty(count, np.int64)
        slope = self._values[0]
        index = 0
        while index < count:
            if self._delay:
                self._delay -= 1
                if not self._delay:
                    self._target = self._next_target
            elif self._gain == self._target:
                gains[index:] = self._gain
                break
            step = self._target - self._gain >> slope
            if not step and self._target > self._gain:
                step = 1
            self._gain += step
            gains[index] = self._gain
            index += 1
        return gains
