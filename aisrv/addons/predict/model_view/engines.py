"""What each engine says of a model: it runs it, or refuses it in words; each in a process of its own."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import trio

from aisrv.inference.errors import InvokeError, ModelError
from aisrv.inference.packages import missing_package
from aisrv.inference.process.isolation import Limits, isolated
from aisrv.protocol.engine_kind import EngineKind, EngineKindError
from aisrv.values.printable import printable

ARENA_BYTES: Final = 64 << 20
"""So large that what is refused is the model, not its size."""
LIMITS: Final = Limits(load_seconds=15.0, invoke_seconds=15.0)
_AT_ONCE: Final = 2
_WORDS: Final = 300
"""Characters of a refusal."""


class EngineAnswer(NamedTuple):
    """An engine as `--engine` names it, and why it does not run the model; None where it does."""

    engine: str
    refusal: str | None

    def __str__(self) -> str:
        return f"{self.engine}: {self.refusal or 'runs it'}"


async def try_engines(data: bytes, engines: Sequence[str]) -> list[EngineAnswer]:
    """Load a model file in each engine, and run it once on zeros."""
    answers: dict[str, str | None] = {}
    limiter = trio.CapacityLimiter(_AT_ONCE)

    async def ask(engine: str) -> None:
        async with limiter:
            answers[engine] = await _refusal(data, engine)

    async with trio.open_nursery() as nursery:
        for engine in engines:
            nursery.start_soon(ask, engine)
    return [EngineAnswer(engine, answers[engine]) for engine in engines]


async def _refusal(data: bytes, engine: str) -> str | None:
    """Return why an engine does not run a model."""
    try:
        kind = EngineKind.parse(engine)
        missing = missing_package(kind)
        if missing is not None:
            return missing.advice
        runner = isolated(lambda _text: None, kind=kind, limits=LIMITS)
    except EngineKindError as error:
        return str(error)
    try:
        await runner.load(data, ARENA_BYTES)
        await runner.invoke()
    except (ModelError, InvokeError) as error:
        return printable(str(error), _WORDS)
    finally:
        with trio.CancelScope(shield=True):
            await runner.close()
    return None


def answers_of(data: bytes, engines: Sequence[str]) -> list[EngineAnswer]:
    """Ask engines from code that runs no event loop."""
    return trio.run(partial(try_engines, data, engines))
