"""The detector against the golden stream's debug words, and its parameters."""

import struct

import numpy as np
import pytest

from aisrv.addons.graph.nodes.detector import PRESETS, Detector, minifloat
from aisrv.addons.graph.nodes.filter import Filter
from aisrv.addons.graph.nodes.node import NodeError, NodeSetup
from tests.support.models.graphs import STREAM, form, golden_audio, high_pass


def ready(preset: int = 0, **more: object) -> Detector:
    node = Detector()
    node.reset(NodeSetup(inputs=(form(640),), outputs=(form(2),), preset=preset, **more))  # type: ignore[arg-type]
    return node


def signed(value: int) -> int:
    return (value + (1 << 31) & 0xFFFFFFFF) - (1 << 31)


def test_debug_words_of_each_sample_of_100_frames() -> None:
    source = np.frombuffer(golden_audio(), np.uint8)
    filtered = np.zeros_like(source)
    highpass = Filter()
    highpass.reset(NodeSetup(inputs=(form(640),), outputs=(form(640),)))
    highpass.set_parameter(0, high_pass())
    highpass.run([source], [filtered])
    node = ready(5)
    out = np.zeros(2, np.uint8)
    words = []
    for sample in filtered.view("<i2"):
        node.run([np.array([sample]).view(np.uint8)], [out])
        _, z7, z8, acc, flag, down = node.state
        gate = 0x7FFFFFFF if down > 0 else 0
        words.append((int(sample) << 15, signed(z7 << 4), signed(z8 << 4), acc, flag, gate))
    golden = np.fromfile(STREAM / "debug_detector_6x32_100frames.raw", "<i4").reshape(-1, 6)
    assert np.array_equal(np.array(words, np.int64), golden)


def test_one_sample_comes_out_of_a_call() -> None:
    out = np.zeros(8, np.uint8)
    assert ready().run([np.zeros(641, np.uint8)], [out]) == ((640,), (2,), False)


def test_minifloats() -> None:
    assert [minifloat(value) for value in (0x00, 0x20, 0x2C, 0xE1, 0xFF)] == [0, 1, 4096, 14, 7 << 31]


@pytest.mark.parametrize("preset", range(6))
def test_presets(preset: int) -> None:
    assert ready(preset) is not None
    assert PRESETS[preset].hex() == ("2c0604060b343680" if preset == 5 else "2c0803060b323460")


def test_parameters_to_read_at_the_start() -> None:
    node = ready()
    floor, peak, ratio = (struct.unpack("<I", node.read_parameter(tag))[0] for tag in range(3))
    assert (floor, peak, ratio) == (2147483, 21474, (21474 << 8) // 2147483)


def test_the_threshold_alone() -> None:
    quiet, loud = ready(5), ready(5)
    quiet.set_parameter(4, b"\xe5")
    out = np.zeros(2, np.uint8)
    noise = np.frombuffer(golden_audio()[: 640 * 30], np.uint8)
    quiet.run([noise], [out])
    assert out.tobytes() == b"\0\0"
    loud.run([noise], [out])
    assert out.tobytes() == b"\xff\x7f"


@pytest.mark.parametrize(
    ("tag", "data"), [(0, bytes(7)), (4, b""), (1, bytes(8)), (0, b"\x2c\x08\x10\x06\x0b\x32\x34\x60")]
)
def test_bad_parameters_are_refused(tag: int, data: bytes) -> None:
    with pytest.raises(NodeError):
        ready().set_parameter(tag, data)


def test_a_preset_that_is_not_there_is_refused() -> None:
    with pytest.raises(NodeError, match="presets 0 to 5, not 6"):
        ready(6)


def test_a_parameter_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(NodeError):
        ready().read_parameter(3)
