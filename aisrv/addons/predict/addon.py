"""What predictions of a model's time and memory bring: two commands, and the report of `aisrv exec`."""

from typing import Final

from aisrv.values.addons import AddOn, Options

ADD_ON: Final = AddOn(
    commands={
        "model": (
            "aisrv.addons.predict.model_command:model",
            "Show what is in a model, draw its arena, compare engines on it.",
        ),
        "profile": (
            "aisrv.addons.predict.profile_command:profile",
            "Predict the time and memory of models on the device.",
        ),
    },
    former_commands={
        "diff-engines": "aisrv.addons.predict.diff_command:diff",
        "plan": "aisrv.addons.predict.plan_command:plan",
    },
    options={"Observing": Options("aisrv.addons.predict.options:ReportOptions", ("exec",))},
)
