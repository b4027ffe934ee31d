"""Combinable tasks: several in one core, each a select in a loop, whose cases the core waits for together.

A task is an async generator that yields its cases and is sent the event that came:

    async def blink(timer: Timer, period: int) -> Combinable:
        time = timer.now()
        while True:
            time += period
            yield [timer.after(time)]
            ...

    tile.start(combine, blink(first, 1000), blink(second, 300), name="blinkers")

What a task does between two yields, verbs included, keeps the others of its core waiting.
Source: XMOS, "How to define and use a combinable function".
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import cast

from aisrv.xcore.select import Case, Event, SelectError, Selection

Cases = Sequence[Event | Case]
"""What a task waits for."""
Combinable = AsyncGenerator[Cases, Event]
"""A task that can share its core."""


async def combine(*tasks: Combinable) -> None:
    """Run tasks in one core, until all have returned; those that others of them wait for must not be here.

    Raises SelectError where a resource is a case of two tasks, or none has a case.
    """
    async with AsyncExitStack() as stack:
        for task in tasks:
            await stack.enter_async_context(aclosing(task))
        waiting: dict[Combinable, Cases] = {}
        for task in tasks:
            await _go_on(task, None, waiting)
        selection: Selection | None = None
        while waiting:
            if selection is None:
                selection = Selection(*(case for cases in waiting.values() for case in cases))
            event = await selection.wait()
            task = next(each for each, cases in waiting.items() if event in map(_event_of, cases))
            before = waiting[task]
            await _go_on(task, event, waiting)
            if waiting.get(task) is not before:
                selection = None


async def _go_on(task: Combinable, event: Event | None, waiting: dict[Combinable, Cases]) -> None:
    """Let a task run up to its next select."""
    try:
        cases = await task.asend(cast("Event", event))  # None begins it
    except StopAsyncIteration:
        waiting.pop(task, None)
        return
    if not isinstance(cases, Sequence):
        raise SelectError(f"{task.__name__} yields {cases!r}, which is no sequence of cases")
    waiting[task] = cases


def _event_of(case: Event | Case) -> Event:
    return case.event if isinstance(case, Case) else case
