"""The team of threads of a process: how many, who they help, and how steps are cut for them."""

import sys
import threading
from pathlib import Path

import pytest

from aisrv import digits
from aisrv.addons.kernels.backends.native import team as teams
from aisrv.addons.kernels.backends.native.backend import native_backend
from aisrv.addons.kernels.backends.native.library import Variant
from aisrv.addons.kernels.backends.native.team import MOST_PIECES, PIECE_WORK, Team, quota
from aisrv.addons.kernels.backends.native.tiles import Group, shared_chunk
from aisrv.addons.kernels.network.load import load_network
from tests.support.models.native import library
from tests.support.models.one_operator import random_int8
from tests.support.oracles.network_runs import run_network
from tests.support.paths import ROOT
from tests.support.programs import run_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts threads by /proc")


def team(threads: int) -> Team:
    return Team(library(), Variant.PLAIN, threads)


COUNTED = """
import os
from aisrv.addons.kernels.backends.native import team
from aisrv.addons.kernels.backends.native.library import Variant, load
team.usable_cores = lambda: 4
library = load()
before = len(os.listdir("/proc/self/task"))
def helpers():
    return len(os.listdir("/proc/self/task")) - before
def of(threads):
    return team.Team(library, Variant.PLAIN, threads)
"""
"""Counts helpers, in a process of its own: in this one other tests may have some."""


def printed(code: str) -> list[int]:
    done = run_process([sys.executable, "-c", COUNTED + code], cwd=ROOT)
    assert done.stderr == ""
    return [int(each) for each in done.stdout.split()]


def test_one_pool_serves_all_teams_and_ends_with_the_last() -> None:
    code = """
first = of(3)
print(helpers())
second = of(2)
print(helpers())
third = of(64)
print(helpers())
del first, third
print(helpers())
del second
print(helpers())
"""
    assert printed(code) == [2, 2, 3, 3, 0]


def test_helpers_start_again() -> None:
    assert printed("for _ in range(3):\n    again = of(2)\n    print(helpers())\n    del again\n") == [
        1,
        1,
        1,
    ]


def test_one_thread_starts_none() -> None:
    assert printed("alone = of(1)\nprint(alone.threads, helpers())\n") == [1, 0]


ONE_CORE = """
import os
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
from aisrv.addons.kernels.backends.native.backend import native_backend
before = len(os.listdir("/proc/self/task"))
backend = native_backend(threads=8)
print(len(os.listdir("/proc/self/task")) - before)
"""


def test_on_one_core_there_is_no_helper() -> None:
    done = run_process([sys.executable, "-c", ONE_CORE])
    assert (done.stdout, done.stderr) == ("0\n", "")


def scores(threads: int) -> list[bytes]:
    """Outputs of a network for one input."""
    network = load_network(digits.model_bytes(), native_backend(threads))
    return [bytes(each) for each in run_network(network, [random_int8([len(network.inputs[0])], 1)])]


FORKED = """
import os
from aisrv.addons.kernels.backends.native import team
team.usable_cores = lambda: 4
team.PIECE_WORK = 64
from aisrv.addons.kernels.backends.native.backend import native_backend
from tests.addons.kernels.backends.native.test_team import scores
kept = native_backend(threads=4)
expected = scores(1)
assert scores(4) == expected
child = os.fork()
if not child:
    os._exit(0 if scores(4) == expected and scores(1) == expected else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), scores(4) == expected)
"""


def test_a_forked_process_computes_what_its_parent_does() -> None:
    quiet = ("-W", "ignore::DeprecationWarning")  # of forks beside threads
    done = run_process([sys.executable, *quiet, "-c", FORKED], cwd=ROOT)
    assert (done.stdout, done.stderr) == ("0 True\n", "")


@pytest.mark.usefixtures("shared_steps")
def test_callers_at_once_get_what_each_gets_alone() -> None:
    expected = scores(1)
    found: list[list[bytes]] = []

    def run() -> None:
        found.extend(scores(4) for _ in range(3))

    callers = [threading.Thread(target=run) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert found == [expected] * 12


@pytest.mark.parametrize(
    ("work", "items", "pieces"),
    [
        (0, 100, 1),
        (PIECE_WORK - 1, 100, 1),
        (2 * PIECE_WORK - 1, 100, 1),
        (2 * PIECE_WORK, 100, 2),
        (50 * PIECE_WORK, 7, 7),
        (1 << 40, 1 << 20, MOST_PIECES),
    ],
)
@pytest.mark.usefixtures("shared_steps")
def test_pieces_are_worth_a_thread_and_no_more_than_there_are_items(
    work: int, items: int, pieces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(teams, "PIECE_WORK", PIECE_WORK)
    assert team(2).pieces(work, items) == pieces
    assert team(1).pieces(work, items) == 1


@pytest.mark.parametrize(
    ("tile", "groups", "chunk", "pixels", "items", "shared"),
    [
        (6, 1, 252, 196, 8, 24),  # 196 become 96, 48, 24: 9 items
        (12, 3, 192, 196, 8, 96),  # 3 chunks of 3 groups are 9 items
        (12, 1, 12, 196, 64, 12),
        (6, 1, 252, 4, 8, 4),
        (1, 1, 64, 64, 8, 8),
    ],
)
def test_chunks_are_halved_in_whole_tiles(
    tile: int, groups: int, chunk: int, pixels: int, items: int, shared: int
) -> None:
    given = tuple(Group(tile, 1, number) for number in range(groups))
    assert shared_chunk(given, chunk, pixels, items) == shared


@pytest.mark.parametrize(
    ("limits", "cores"),
    [
        ({}, float("inf")),
        ({"": "max 100000"}, float("inf")),
        ({"a/b": "150000 100000"}, 1.5),
        ({"a": "50000 100000", "a/b": "max 100000"}, 0.5),
        ({"": "200000 100000", "a": "300000 100000"}, 2.0),
        ({"a/b": "nonsense"}, float("inf")),
    ],
)
def test_the_quota_is_the_least_of_all_groups(tmp_path: Path, limits: dict[str, str], cores: float) -> None:
    (tmp_path / "root/a/b").mkdir(parents=True)
    (tmp_path / "cgroup").write_text("1:cpu:/old\n0::/a/b\n")
    for group, text in limits.items():
        (tmp_path / "root" / group / "cpu.max").write_text(f"{text}\n")
    assert quota(tmp_path / "cgroup", tmp_path / "root") == cores


def test_without_control_groups_there_is_no_quota(tmp_path: Path) -> None:
    assert quota(tmp_path / "none", tmp_path) == float("inf")
