"""Uploads over a bus that loses 15 % of the frames in both directions: whole, or not at all."""

import random
import struct

import pytest

from aisrv.addons.jacdac.task.engine_jobs import LoadJob
from aisrv.addons.jacdac.wire.frame import ACK_INDEX
from aisrv.addons.jacdac.wire.pipes import OutPipe, PipeArgument
from tests.support.benches.jacdac_core import DEVICE, ScriptedCore

LOSS = 0.15


def attempt(core: ScriptedCore, chance: random.Random, model: bytes) -> None:
    """Upload a model through a pipe, to its end or until it gives up."""
    port = core.open(0x80, struct.pack("<I", len(model)))

    def acknowledge(crc: int) -> None:
        if chance.random() >= LOSS:
            core.device.timers.after(500, lambda: pipe.acknowledge(DEVICE, crc))

    def carry(frame: bytes) -> None:
        if chance.random() < LOSS:
            return
        core.sent.clear()
        core.device.receive(frame)
        for sent in core.sent:
            if sent.packets[0].service == ACK_INDEX:
                acknowledge(sent.packets[0].command)

    ended: list[bool] = []
    pipe = OutPipe(PipeArgument(DEVICE, port), core.device.timers, carry, lambda: ended.append(True))
    assert pipe.write(model)
    pipe.close()
    while not ended:
        deadline = core.device.timers.next_deadline
        assert deadline is not None
        core.device.timers.advance(deadline)


@pytest.mark.parametrize("seed", range(5))
def test_upload_over_a_bus_with_losses_is_byte_exact(seed: int) -> None:
    chance = random.Random(seed)
    core = ScriptedCore()
    model = chance.randbytes(10_000)
    for _ in range(30):  # a pipe gives up after four losses of a packet: the client begins again
        attempt(core, chance, model)
        if core.engine.jobs:
            break
    (job,) = core.engine.jobs
    assert isinstance(job, LoadJob)
    assert job.model == model
