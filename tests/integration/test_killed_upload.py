"""`aisrv run`, killed while a host uploads a model over Jacdac: the chip's file has all other parts.

Whenever the process dies, the engine that was written has its old model or the new one.
"""

import os
import random
import re
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from aisrv import digits
from flash_server.chip.part import MX25R3235F
from flash_server.chip.storage import FileStorage
from flash_server.image import DataPartition, EngineImage
from host_tools.client import AiServer
from host_tools.errors import HostError
from tests.support.benches.cut_flash import SECTOR, contents_of, noise
from tests.support.programs import AISRV, start_process

BOOT_BYTES = 65536
END = MX25R3235F.size
CLAIM, COPIES = END - 5 * SECTOR, END - 4 * SECTOR
OLD, NEW = digits.model_bytes(), digits.float_model_bytes()
PARAMETERS = noise(1, 3000), noise(2, 4000)
LAYOUT = DataPartition((EngineImage(OLD, PARAMETERS[0]), EngineImage(OLD, PARAMETERS[1]))).build()
SLOT = BOOT_BYTES + -(-len(LAYOUT) // SECTOR) * SECTOR
"""Address of the first free sector: that of the new model."""
ERASED = b"\xff" * 16

Trigger = Callable[[int, int], bool]
"""Whether the process is to die, by the descriptors of the chip's file and of its journal."""


def written(address: int) -> Trigger:
    return lambda chip, _journal: os.pread(chip, 16, address) != ERASED


def operations(count: int) -> Trigger:
    """After so many programs and erases that were seen; others come between two looks."""
    seen: set[bytes] = set()

    def is_due(_chip: int, journal: int) -> bool:
        seen.add(os.pread(journal, 24, 0))
        return len(seen) > count

    return is_due


TRIGGERS: list[Trigger] = [
    *(written(SLOT + sector * SECTOR) for sector in range(2)),
    written(CLAIM),
    *(written(COPIES + sector * SECTOR) for sector in range(2)),
    written(CLAIM + 256),
    lambda chip, _journal: os.pread(chip, 16, BOOT_BYTES) == ERASED,
    lambda chip, _journal: os.pread(chip, 1, CLAIM) == b"\xff" and os.pread(chip, 16, SLOT) != ERASED,
]


@pytest.mark.parametrize(
    "seed",
    [
        *range(2),
        *(pytest.param(seed, marks=pytest.mark.long("more kills of a process")) for seed in range(2, 40)),
    ],
)
def test_a_device_that_is_killed_within_an_upload_keeps_what_is_stored(seed: int, tmp_path: Path) -> None:
    path = tmp_path / "chip"
    with FileStorage(path, MX25R3235F.size) as storage:
        storage.write(BOOT_BYTES, LAYOUT)
    dice = random.Random(seed)
    engine, trigger = dice.randrange(2), dice.choice([*TRIGGERS, *(operations(dice.randrange(90)),) * 8])
    flash = [
        "--flash",
        path,
        "--flash-part",
        "mx25r3235f",
        "--boot-size",
        "64K",
        "--boot-from-flash",
        "arena",
    ]
    ports = ["--port", "0", "--jacdac-port", "0", "--jacdac-websocket-port", "0"]
    with start_process([*AISRV, "run", "--engines", "2", *flash, *ports]) as process:
        assert process.stdout is not None
        place = re.search(r"jacdac:\S+?(?=,)", process.stdout.readline())
        assert place is not None
        done = threading.Event()

        def kill() -> None:
            chip, journal = (os.open(each, os.O_RDONLY) for each in (path, f"{path}.journal"))
            while not (done.is_set() or trigger(chip, journal)):
                os.sched_yield()
            os.kill(process.pid, signal.SIGKILL)
            os.close(chip)
            os.close(journal)

        killer = threading.Thread(target=kill)
        with AiServer.open(place.group(), engine=engine) as server:
            killer.start()
            with suppress(HostError):  # the device has died
                server.load_model(NEW)
        done.set()
        killer.join()
        process.wait(60)
    with FileStorage(path, MX25R3235F.size) as storage:
        found = contents_of(storage, MX25R3235F, BOOT_BYTES, 2).found
    assert found[f"model {engine}"] in (OLD, NEW)
    assert found[f"model {1 - engine}"] == OLD
    for number, parameters in enumerate(PARAMETERS):
        stored = found[f"parameters {number}"]
        assert isinstance(stored, bytes)
        assert stored.startswith(parameters)
