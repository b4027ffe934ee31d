"""Pictures of frames: header, size, and pixels worked out by hand."""

import pytest

from aisrv.addons.web.device.frame_pictures import frame_picture
from aisrv.sensors.image.frame import Encoding, RawFrame


@pytest.mark.parametrize(
    ("encoding", "data", "pixels"),
    [
        (Encoding.RGB, bytes(range(12)), bytes(range(12))),
        (
            Encoding.YUV422,
            bytes((10, 1, 20, 2, 30, 3, 40, 4)),
            bytes((10,) * 3 + (20,) * 3 + (30,) * 3 + (40,) * 3),
        ),
        (Encoding.BAYER_RGGB, bytes((200, 100, 101, 50)), bytes((200, 100, 50))),
    ],
)
def test_frames(encoding: Encoding, data: bytes, pixels: bytes) -> None:
    side = 1 if encoding is Encoding.BAYER_RGGB else 2
    header = bytes((1, 0, side, 0, side, 0, 0, 0))
    assert frame_picture(RawFrame(2, 2, encoding, data)) == header + pixels


def test_samples_are_no_picture() -> None:
    assert frame_picture(RawFrame(4, 1, Encoding.SAMPLES, bytes(4))) == b""


def test_a_large_frame_is_thinned_out() -> None:
    picture = frame_picture(RawFrame(640, 480, Encoding.RGB, bytes(640 * 480 * 3)))
    assert picture[:8] == bytes((1, 0, 160, 0, 120, 0, 0, 0))
    assert len(picture) == 8 + 160 * 120 * 3
