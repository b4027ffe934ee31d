"""What firmware in C brings: a command, and what it needs of the machine."""

from typing import Final

from aisrv.values.addons import AddOn, UserTasks

_C: Final = UserTasks("aisrv.addons.firmware.board:CTaskSpec", "aisrv.addons.firmware.c_run:run_c", (".c",))

ADD_ON: Final = AddOn(
    task_kinds={"c": _C, "library": _C},
    commands={
        "firmware": (
            "aisrv.addons.firmware.commands:firmware",
            "Compile and run firmware in C on the tiles of a virtual chip.",
        )
    },
    doctor="aisrv.addons.firmware.doctor:findings",
)
