"""Pictures of the frames of a running device's sensor."""

from aisrv.addons.web.pictures import FRAME, picture_message
from aisrv.sensors.image.frame import Encoding, RawFrame


def frame_picture(frame: RawFrame) -> bytes:
    """Return the message of a frame, made small by leaving out pixels; YUV shows its brightness.

    A frame of samples is no picture: it has none.
    """
    import numpy as np

    if frame.encoding is Encoding.SAMPLES:
        return b""
    data = np.frombuffer(frame.data, np.uint8)
    if frame.encoding is Encoding.BAYER_RGGB:
        raw = data.reshape(frame.height, frame.width)
        pixels = np.stack([raw[0::2, 0::2], raw[0::2, 1::2], raw[1::2, 1::2]], 2)
    elif frame.encoding is Encoding.RGB:
        pixels = data.reshape(frame.height, frame.width, 3)
    else:
        pixels = np.repeat(data.reshape(frame.height, frame.width, 2)[:, :, :1], 3, 2)
    return picture_message(FRAME, 0, pixels)
