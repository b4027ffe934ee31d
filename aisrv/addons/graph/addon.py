"""What graphs of stream-processing nodes bring: a part of a board, its options, and a command."""

from typing import Final

from aisrv.values.addons import AddOn, Options

ADD_ON: Final = AddOn(
    tables={"graph": "aisrv.addons.graph.board:Graph"},
    options={"Graph": Options("aisrv.addons.graph.options:GraphOptions")},
    commands={
        "graph": (
            "aisrv.addons.graph.cli.graph:graph",
            "Compile, check, list and draw graphs of stream-processing nodes.",
        )
    },
)
