"""What pins bring: peripherals and stimuli on the pins of a board's tiles, and recordings of the pins."""

from typing import Final

from aisrv.values.addons import AddOn, Options

ADD_ON: Final = AddOn(
    arrays=dict.fromkeys(("peripherals", "pins"), "aisrv.addons.pins.board:Pins"),
    options={"Pins": Options("aisrv.addons.pins.options:PinsOptions", ("run", "exec", "attach"))},
)
