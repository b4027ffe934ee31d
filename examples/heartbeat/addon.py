"""What the package brings."""

from aisrv.values.addons import AddOn

ADD_ON = AddOn(
    tables={"heartbeat": "heartbeat.board:Heartbeat"},
    commands={"beat": ("heartbeat.command:beat", "Say how often a board's heart beats.")},
)
