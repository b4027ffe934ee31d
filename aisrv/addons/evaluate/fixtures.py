"""The fixture of tests that evaluate a model."""

from typing import TYPE_CHECKING, Any

import pytest

from aisrv.pytest_plugin import OPTION, fail

if TYPE_CHECKING:
    from collections.abc import Callable
    from os import PathLike


@pytest.fixture
def aisrv_evaluate(request: pytest.FixtureRequest) -> "Callable[..., dict[str, Any]]":
    """Return a function that evaluates a model on data: `aisrv_evaluate("net.tflite", "photos", limit=500)`.

    Files count from the test's folder. It also takes `against`, an engine, a device or a model's file, and
    `on`, which is "engine" or the address of a device; "device" is the one that the tests run on. The result
    is as `result.json` of `aisrv evaluate` has it; a model or data that cannot be evaluated fail the test.
    """

    def evaluated(
        model: "str | PathLike[str]",
        data: "str | PathLike[str]",
        *,
        against: str | None = None,
        on: str = "engine",
        limit: int | None = None,
    ) -> dict[str, Any]:
        from os import fspath

        from aisrv.addons.evaluate.data.opening import DIGITS
        from aisrv.addons.evaluate.errors import EvaluateError
        from aisrv.addons.evaluate.evaluation import evaluate
        from aisrv.addons.evaluate.request import Request

        folder = request.path.parent
        source = fspath(data)
        if on == "device":
            on = request.config.getoption(OPTION) or "virtual"
        if against is not None and against.endswith(".tflite"):
            against = fspath(folder / against)
        try:
            outcome = evaluate(
                Request(
                    folder / model,
                    source if source in DIGITS else fspath(folder / source),
                    limit=limit,
                    on=on,
                    against=against,
                )
            )
        except (EvaluateError, OSError) as error:
            fail(error)
        return outcome.result

    return evaluated
