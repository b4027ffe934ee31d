"""What our own kernels bring: an engine of them, and one that executes relocatable images made of them."""

from typing import Final

from aisrv.values.addons import AddOn, Kind

KERNELS: Final = "kernels"
"""The kind of our own kernels."""
MOST_THREADS: Final = 64
"""Threads of the host that native kernels may run on."""

ADD_ON: Final = AddOn(
    engine_kinds={
        KERNELS: Kind(
            "aisrv.addons.kernels.interpreter:KernelsInterpreter",
            "aisrv.addons.kernels.variant:KernelsVariant",
            form="kernels:BACKEND",
            rank=2,
            most_threads=MOST_THREADS,
            takes_fallback=True,
        ),
        "relocatable": Kind(
            "aisrv.addons.kernels.relocatable.interpreter:RelocatableInterpreter",
            "aisrv.addons.kernels.relocatable.variant:RelocatableVariant",
        ),
    },
    doctor="aisrv.addons.kernels.doctor:findings",
)
