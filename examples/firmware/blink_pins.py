"""What is wired to the pins of `blink.c`: a button that somebody presses, and a lamp to look at."""

from aisrv.xcore.tile import Tile

MS = 100_000  # ticks of 10 ns


class Button:
    """Drives its pin."""

    name = "the button"


async def button(tile: Tile) -> None:
    """Press the button at 95, 195 and 295 ms, for 5 ms each."""
    pin, hand = tile.pin("1B"), Button()
    pin.drive(1, hand)
    for ms in (95, 195, 295):
        await pin.until(ms * MS)
        pin.drive(0, hand)
        await pin.until((ms + 5) * MS)
        pin.drive(1, hand)


async def lamp(tile: Tile) -> None:
    """Tell when the lamp goes on and off."""
    pin = tile.pin("1A")
    tick = 0
    while True:
        tick = await pin.edge(after=tick)
        print(f"{tick / 100_000:.0f} ms: {'on' if pin.value(tick) else 'off'}", flush=True)
