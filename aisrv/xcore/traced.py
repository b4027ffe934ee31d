"""Reports verbs, waits and commands to the tracers of a node, and costs little where there is none."""

import functools
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from trio.lowlevel import current_task

from aisrv.xcore.core import Core, Resource, current_core
from aisrv.xcore.runtime import Runtime, current_runtime
from aisrv.xcore.trace import TracedEnd, Tracer

T = TypeVar("T")
P = ParamSpec("P")


class NodeResource(Resource, Protocol):
    """A resource of a node."""

    @property
    def runtime(self) -> Runtime:
        """Runtime that all resources of its node share."""


R = TypeVar("R", bound=NodeResource)
Method = Callable[Concatenate[R, P], Coroutine[Any, Any, T]]


def traced_verb(verb: str) -> Callable[[Method[R, P, T]], Method[R, P, T]]:
    """Report the begin and the end of an async method of a resource as those of a verb of that name."""

    def decorate(method: Method[R, P, T]) -> Method[R, P, T]:
        @functools.wraps(method)
        def begin(resource: R, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
            done = method(resource, *args, **kwargs)
            return done if resource.runtime.verb_tracer is None else _traced(verb, resource, done)

        return begin

    return decorate


async def _traced(verb: str, resource: NodeResource, done: Coroutine[Any, Any, T]) -> T:
    runtime, core = resource.runtime, current_core()
    tracer = runtime.verb_tracer or Tracer()
    tracer.verb_began(core, verb, resource, runtime.tick_of(core))
    try:
        return await done
    finally:
        tracer.verb_ended(core, verb, resource, runtime.tick_of(core))


@contextmanager
def traced_command(command: str, end: TracedEnd, runtime: Runtime) -> Iterator[None]:
    """Report that the running core carries out a client's command, which came to `end`, within the block."""
    tracer, core = runtime.tracer or Tracer(), current_core()
    tracer.command_began(core, command, end, runtime.tick_of(core))
    try:
        yield
    finally:
        tracer.command_ended(core, command, end, runtime.tick_of(core))


def traced_wait(wait: Awaitable[T], verb: str, resource: Resource) -> Awaitable[T]:
    """Report that the running core, in `verb`, waits for a resource outside of its node, while it awaits."""
    runtime = current_runtime()
    if runtime is None or runtime.tracer is None:
        return wait
    core = current_core()
    if core is None or core.task is not current_task():
        return wait  # a child task waits alone: its core may well be running
    return _traced_wait(wait, verb, resource, core, runtime)


async def _traced_wait(wait: Awaitable[T], verb: str, resource: Resource, core: Core, runtime: Runtime) -> T:
    tracer = runtime.tracer or Tracer()
    tracer.waits(core, verb, resource, runtime.tick_of(core))
    try:
        return await wait
    finally:
        tracer.woken(core, runtime.tick_of(core))
