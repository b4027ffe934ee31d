"""What a run takes, computed by hand from round numbers."""

import pytest

from aisrv.addons.evaluate.fleet.costs import Machines, Units, as_json, cost_of, describe, good_shard

UNITS = Units(
    sample=1000,
    example_ms=3.4,
    run_ms=0.05,
    example_bytes=54_000,
    part_bytes=8,
    engine_start_ms=400,
    tasks=300,
    task_ms=2,
    worker_start_s=2,
    cpu="a processor",
)
MACHINES = Machines(100, 16, 1)


def test_ten_million_pictures_are_limited_by_the_network() -> None:
    cost = cost_of(10_000_000, UNITS, MACHINES)
    assert (cost.shard, cost.tasks) == (1500, 6667)
    assert cost.task_s == pytest.approx(1500 * 0.0034 + 0.4)
    assert cost.work_s == pytest.approx((34_000 + 6667 * 0.4) / 1600)
    assert cost.scheduler_s == pytest.approx(13.334)
    assert cost.network_s == pytest.approx(540e9 * 8 / 100e9)
    assert (cost.read_bytes, cost.part_bytes) == (540e9, 80e6)
    assert cost.limit == "network"
    assert cost.total_s == pytest.approx(2 + 43.2 + 5.5)


@pytest.mark.parametrize(
    ("machines", "limit", "seconds"),
    [
        (Machines(100, 16, 1, store_gbit=20), "store", 540e9 * 8 / 20e9),
        (Machines(100, 16, 1, store_gbit=500), "network", 43.2),
        (Machines(10, 16, 100), "work", (34_000 + 6667 * 0.4) / 160),
        (Machines(100, 64, 100), "scheduler", 13.334),
    ],
)
def test_the_slowest_is_the_limit(machines: Machines, limit: str, seconds: float) -> None:
    cost = cost_of(10_000_000, UNITS, machines)
    assert cost.limit == limit
    assert cost.total_s == pytest.approx(cost.start_s + seconds + cost.tail_s)


def test_shards_leave_work_for_every_worker() -> None:
    assert good_shard(16_000, UNITS, MACHINES) == 10
    assert good_shard(100, UNITS, MACHINES) == 1
    assert cost_of(100, UNITS, MACHINES).work_s == pytest.approx(0.0034 + 0.4)
    assert cost_of(1000, UNITS, Machines(1, 1, 1), shard=300).tasks == 4


def test_the_text_says_what_it_is_based_on() -> None:
    cost = cost_of(10_000_000, UNITS, MACHINES)
    text = describe(UNITS, MACHINES, cost)
    assert "  an example          3.4 ms of CPU time, the model's run 0.05 (1,000 examples)" in text
    assert "  reading         43 s for 540 GB at 100 Gbit/s, which the store must give" in text
    assert "  in all          51 s; the network is the limit" in text
    assert "with --shard 1500" in text
    values = as_json(UNITS, MACHINES, cost)
    assert values["measured"]["cpu"] == "a processor"
    assert values["computed"]["limit"] == "network"
