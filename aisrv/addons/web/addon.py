"""What the page brings: options that serve it beside devices, and a command of hosts that serves it."""

from typing import Final

from aisrv.values.addons import AddOn, Options

ADD_ON: Final = AddOn(
    options={"Web": Options("aisrv.addons.web.options:WebOptions", ("attach", "exec", "run"))},
    host_commands={"web": "aisrv.addons.web.host.command:web"},
)
