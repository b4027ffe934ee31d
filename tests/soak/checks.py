"""All long checks by name, in the order in which they run."""

from typing import Final

from tests.soak import (
    command_files,
    commands,
    files,
    guided,
    hosts,
    jacdac,
    kernels,
    killed_writers,
    models,
    mutants,
    usbip,
    workers,
)
from tests.soak.check import Check

CHECKS: Final[dict[str, Check]] = {
    check.name: check
    for check in (
        files.CHECK,
        command_files.CHECK,
        usbip.CHECK,
        jacdac.CHECK,
        commands.CHECK,
        models.CHECK,
        killed_writers.CHECK,
        workers.CHECK,
        hosts.CHECK,
        guided.CHECK,
        kernels.CHECK,
        mutants.CHECK,
    )
}
