"""What is wired to the pins of `blink.c`: a button that somebody presses, and a lamp to look at."""

import trio

from aisrv.xcore.tile import Tile


class Button:
    """Drives its pin."""

    name = "the button"


async def button(tile: Tile) -> None:
    """Press the button at 100, 200 and 300 ms, for 5 ms each."""
    pin, hand = tile.pin("1B"), Button()
    pin.drive(1, hand)
    for _ in range(3):
        await trio.sleep(0.095)
        pin.drive(0, hand)
        await trio.sleep(0.005)
        pin.drive(1, hand)


async def lamp(tile: Tile) -> None:
    """Tell when the lamp goes on and off."""
    pin = tile.pin("1A")
    tick = 0
    while True:
        tick = await pin.edge(after=tick)
        print(f"{tick / 100_000:.0f} ms: {'on' if pin.value(tick) else 'off'}", flush=True)
