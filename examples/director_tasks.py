"""The tasks of `director.toml`: a camera, and a director that has two engines read what the camera sees.

Run them with `aisrv run --board examples/director.toml`. The networks and the strips of paper are those of
`director.py`. Hosts may use both engines over USB while the tasks run, and afterwards.
"""

from director import ENOUGH, PLACES, SIDE, WIDTH, cut_out, detect, detector_network, frames, read

from aisrv import digits
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_buf_byte, chan_in_word, chan_out_buf_byte, chan_out_word
from phy.local import aisrv_local_load_model


async def camera(strips: ChanEnd) -> None:
    """Send how many strips there are, then each strip, int8 [8, 32]."""
    shown = frames()
    await chan_out_word(strips, len(shown))
    for strip in shown:
        await chan_out_buf_byte(strips, strip)


async def direct(detector: ChanEnd, reader: ChanEnd, strips: ChanEnd) -> None:
    """Print the digits on each strip: find the places with ink, then read the digit in each."""
    await aisrv_local_load_model(detector, detector_network())
    await aisrv_local_load_model(reader, digits.model_bytes())
    for _ in range(await chan_in_word(strips)):
        strip = await chan_in_buf_byte(strips, SIDE * WIDTH)
        ink = await detect(detector, strip)
        places = [place for place in range(PLACES) if ink[place] >= ENOUGH]
        read_digits = {place: await read(reader, cut_out(strip, place)) for place in places}
        text = "".join(str(read_digits.get(place, " ")) for place in range(PLACES))
        print(f"director: {text!r}", flush=True)
