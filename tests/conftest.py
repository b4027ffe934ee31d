"""What all tests share: async tests, Hypothesis at the speed of any machine, the digits network as a file."""

import gc
import inspect
import os
import signal
from collections.abc import Awaitable, Callable
from functools import wraps
from pathlib import Path

import pytest
import trio
from _pytest.runner import runtestprotocol
from hypothesis import HealthCheck, settings

from aisrv import digits
from tests.support import all_timed, amounts, quick
from tests.support.paths import ROOT

TEST_SECONDS = 60

HANDLERS = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda _number, _frame: None}
"""For signals that are ignored where the tests run in the background of a script, or under nohup."""

collect_ignore = ["browser"]
"""Folders that only run where they are named: `make test-web` does."""

FIRST = (
    "tests/guest/test_kernel.py",  # with `make long`
    "tests/addons/jacdac/host/test_exchange.py",
    "tests/addons/evaluate/fleet/test_cluster_run.py",
    "tests/addons/jacdac/task/test_jacdac_real_clients.py",
    "tests/inference/process/test_isolation_distrust.py",
    "tests/integration/test_web_page.py",
    "tests/addons/evaluate/data/test_urls.py",
    "tests/addons/kernels/network/test_load.py",
    "tests/cli/options/test_status.py",
    "tests/integration/test_end_to_end.py",
    "tests/attach/preload/test_preload.py",
    "tests/integration/test_manual.py",
    "tests/addons/kernels/images/test_build.py",
    "tests/addons/evaluate/cli/test_evaluate.py",
    "tests/integration/test_time_bands.py",
)
"""Files that begin first: they wait longest, and others have the cores meanwhile."""


def _in_trio(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**fixtures: object) -> None:
        async def bounded() -> None:
            with trio.fail_after(TEST_SECONDS):
                await test(**fixtures)

        trio.run(bounded)

    return run


def pytest_addoption(parser: pytest.Parser) -> None:
    """Say how much runs, and what is measured; processes of xdist have the same options."""
    group = parser.getgroup("tests of this checkout")
    group.addoption("--long", action="store_true", help="also what has the mark `long`, as in CI")
    group.addoption("--in-full", action="store_true", help="all tries of the mark `in_full`; also `long`")
    group.addoption("--device-time", action="store_true", help="have each device in device time")
    group.addoption("--seconds", type=Path, metavar="FOLDER", help="write what each test takes there")


def _choose_amounts(config: pytest.Config) -> None:
    """Settle how many tries tests make, before they are imported."""
    if config.getoption("--in-full"):
        amounts.choose(amounts.Chosen.IN_FULL)
    elif config.getoption("--long"):
        amounts.choose(amounts.Chosen.LONG)
    settings.register_profile(
        "repeatable",
        derandomize=True,
        deadline=None,
        max_examples=amounts.in_ci(100, every_day=20),
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    """Let programs take signals, and keep the garbage collector out of the thousands of tests."""
    _choose_amounts(config)
    for number, handler in HANDLERS.items():
        if signal.getsignal(number) is signal.SIG_IGN:  # programs inherit that, but no handler
            signal.signal(number, handler)
    if folder := config.getoption("--seconds"):
        from tests.support import seconds  # with msgspec, which not every interpreter has that runs tests

        config.pluginmanager.register(seconds.Recorder(folder))
    gc.disable()
    if config.getoption("--device-time"):
        all_timed.switch_on()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """For `-m quick`, import only files with such tests: all of them take longer than those tests."""
    if config.getoption("-m") != quick.MARK or not collection_path.is_relative_to(ROOT / "tests"):
        return None
    return None if quick.may_have_quick(collection_path.relative_to(ROOT)) else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what does not run every day, and begin with the files that wait longest."""
    for item in items:
        if quick.is_quick(item.nodeid):
            item.add_marker(quick.MARK)
    if not amounts.is_long():
        amounts.without_long(config, items)
    if config.getoption("--device-time"):
        all_timed.leave_out(items)
    places = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: places.get(item.nodeid.partition("::")[0], len(places)))


def pytest_collection_finish() -> None:
    """Leave out of its later searches, too, what stays until the end."""
    gc.freeze()
    gc.enable()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are cores: many tests wait for programs that they start."""
    return 1 + (os.cpu_count() or 1)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """In a process of xdist, tell how a test ended and what failed around it: two messages, not six."""
    if not hasattr(item.config, "workerinput"):
        return None
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if report.when == "call" or not report.passed:
            item.ihook.pytest_runtest_logreport(report=report)
    return True


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test in Trio, for a minute at most."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    _in_trio(pyfuncitem.obj)(**{name: pyfuncitem.funcargs[name] for name in names})
    return True


@pytest.fixture
def digits_file(tmp_path: Path) -> Path:
    """The digits network as a model file."""
    path = tmp_path / "digits.tflite"
    path.write_bytes(digits.model_bytes())
    return path
