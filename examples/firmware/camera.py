"""The camera of `director.toml`: it loads both engines' models, and sends strips of paper to the director."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

from director import detector_network, frames

from aisrv import digits
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_out_buf_byte, chan_out_word
from phy.local import aisrv_local_load_model


async def camera(strips: ChanEnd, detector: ChanEnd, reader: ChanEnd) -> None:
    """Send how many strips there are, then each strip, int8 [8, 32]."""
    await aisrv_local_load_model(detector, detector_network())
    await aisrv_local_load_model(reader, digits.model_bytes())
    shown = frames()
    await chan_out_word(strips, len(shown))
    for strip in shown:
        await chan_out_buf_byte(strips, strip)
