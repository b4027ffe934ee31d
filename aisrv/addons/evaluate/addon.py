"""What the evaluation of models on data sets brings."""

from typing import Final

from aisrv.values.addons import AddOn

ADD_ON: Final = AddOn(
    commands={
        "evaluate": (
            "aisrv.addons.evaluate.cli.evaluate:evaluate",
            "Run a model on a data set: how right, how fast.",
        ),
        "fleet": (
            "aisrv.addons.evaluate.cli.fleet:fleet",
            "Run a cluster for evaluations here, and say what one takes.",
        ),
        "sweep": (
            "aisrv.addons.evaluate.cli.sweep:sweep",
            "Find the smallest board on which models are fast and right enough.",
        ),
    },
    fixtures="aisrv.addons.evaluate.fixtures",
)
