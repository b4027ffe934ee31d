"""What all tests share: how an async test runs, and the isolation of Hypothesis from this machine's speed."""

import inspect
from collections.abc import Awaitable, Callable
from functools import wraps

import pytest
import trio
from hypothesis import HealthCheck, settings

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

TEST_SECONDS = 60


def _in_trio(test: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    @wraps(test)
    def run(**fixtures: object) -> None:
        async def bounded() -> None:
            with trio.fail_after(TEST_SECONDS):
                await test(**fixtures)

        trio.run(bounded)

    return run


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run an `async def` test in Trio, for a minute at most."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    _in_trio(pyfuncitem.obj)(**{name: pyfuncitem.funcargs[name] for name in names})
    return True
