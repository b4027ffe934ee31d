"""What captures of USB traffic bring: two commands."""

from typing import Final

from aisrv.values.addons import AddOn

ADD_ON: Final = AddOn(
    commands={
        "replay": (
            "aisrv.addons.captures.replay_command:replay_command",
            "Play the host's side of a USB capture to a device, and compare its answers.",
        ),
        "wireshark": (
            "aisrv.addons.captures.wireshark_command:wireshark",
            "Show or install the dissector for Wireshark.",
        ),
    },
)
