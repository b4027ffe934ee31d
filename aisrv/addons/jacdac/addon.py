"""What Jacdac brings: a device on a bus, the bus's servers, and hosts on it."""

from typing import Final

from aisrv.values.addons import AddOn, Options, Scheme

ADD_ON: Final = AddOn(
    tables={"jacdac": "aisrv.addons.jacdac.board:Jacdac"},
    options={"Jacdac": Options("aisrv.addons.jacdac.options:JacdacOptions")},
    host_commands={"jacdac": "aisrv.addons.jacdac.host.commands:jacdac"},
    schemes={
        "jacdac": Scheme(
            "jacdac:HOST:PORT[/DEVICE]",
            "aisrv.addons.jacdac.host.transport",
            as_float32=True,
            describes_itself=True,
        )
    },
    fixtures="aisrv.addons.jacdac.fixtures",
)
