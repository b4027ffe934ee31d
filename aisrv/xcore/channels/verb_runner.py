"""Verbs in progress: one at a time on an end, stepped as tokens and room come, while the task sleeps."""

import logging
import types
from collections.abc import Callable, Generator
from typing import Any, Final, TypeVar

from aisrv.xcore.channels.end_state import EndState
from aisrv.xcore.channels.listener import Listener
from aisrv.xcore.channels.verb import Steps, Verb
from aisrv.xcore.core import Core, check_tile, current_core
from aisrv.xcore.report import verb_of
from aisrv.xcore.runtime import MAX_VERBS_PER_TURN
from aisrv.xcore.traps import Trap, TrapKind

T = TypeVar("T")

logger = logging.getLogger(__name__)

_OUTPUT_VERBS: Final = frozenset(("setd", "outuint", "outuchar", "outct", "outbytes", "outwords"))


class VerbRunner(EndState):
    """What a channel end is to its verbs, and to the select of a core that waits for it."""

    __slots__ = ()

    @property
    def name(self) -> str:
        """Name with resource id, as traps and reports give it."""
        return f"chanend 0x{self.resource_id:08x}"

    @property
    def user(self) -> Core | None:
        """The core that uses the end, as far as is known; None for a program outside of the node."""
        return self._user

    @property
    def tick(self) -> int:
        """Tick at which its user is; for tracers."""
        return self.runtime.tick_of(self._user)

    def assign(self, core: Core) -> None:
        """Note which core is to use the end, for reports; no core of another tile can."""
        if core.tile == self.tile:
            self._user = core

    def listen(self, listener: Listener) -> None:
        """Let a select know when the first token comes, or one that a verb leaves which goes on by itself."""
        if (self._steps is not None and not self.is_left) or self._listener is not None:
            self._check_usable("select")
        self._listener = listener

    def stop_listening(self, listener: Listener) -> None:
        """Forget a select's listener; that of another select stays."""
        if self._listener is listener:
            self._listener = None

    @types.coroutine
    def run_verb(
        self, verb: str, steps: Steps[T], on_cancel: Callable[[], None] | None = None
    ) -> Generator[Any, Any, T]:
        """Run a verb of that name; the task sleeps until all of its steps are done.

        A verb that need not wait is done at once and lets nobody else run; where it waits it can be
        cancelled. The buffer is so small that no pair of cores goes far without waiting; the verbs of a core
        that never waits, as one that outputs to nobody, let others run after `MAX_VERBS_PER_TURN` of them.
        `on_cancel` is called at a cancellation, in place of undoing what the verb has not finished.
        """
        if self.runtime.verbs_at_once >= MAX_VERBS_PER_TURN:
            yield from self.runtime.yield_to_others()
        core = current_core()
        if core is not self._user:
            check_tile(self.tile, f"{verb} on {self.name}")
        if self._steps is not None or self._listener is not None or self._freed:
            while self.is_left and self._parking.task is None:
                yield from self._parking.park(verb, self)
            self._check_usable(verb)
        self._user = core
        self._steps = steps
        tracer = self.runtime.verb_tracer
        if tracer is not None:
            tracer.verb_began(core, verb, self, self.tick)
        self._switch.step(self)
        try:
            if self._steps is not None:
                result: T = yield from self._parking.park(verb, self, on_cancel or self._withdraw)
                return result
            if self._error is not None:
                error, self._error = self._error, None
                raise error
        except Trap as trap:
            trap.place = trap.place or f"{verb} on {self.name}"
            raise
        finally:
            if tracer is not None:
                tracer.verb_ended(core, verb, self, self.runtime.tick_of(core))
        self.runtime.verbs_at_once += 1
        result, self._result = self._result, None
        return result

    def run_whole_verb(self, verb: str, steps: Steps[T]) -> "Verb[T]":
        """Run a verb that goes on by itself where its task is cancelled."""
        return self.run_verb(verb, steps, self._leave)

    def leave(self, verb: "Callable[[Any], Steps[object] | Verb[object]]") -> None:
        """Run a verb without a task; the next one on the end waits for its end."""
        self._steps = self.left = self._left_alone(verb)
        self._switch.step(self)

    def forget_left(self) -> None:
        """Give up a verb that goes on by itself, which knows its end: the node has ended."""
        if self.is_left:
            self._steps = None
        self.left = None

    @property
    def is_left(self) -> bool:
        """Return whether the verb in progress goes on by itself."""
        return self.left is not None and self.left is self._steps

    def resume(self) -> None:
        """Step the verb in progress, if any, as far as its tokens and room allow; the switch calls it."""
        if self._steps is None:
            return
        self.is_stepping = True
        try:
            self._steps.send(None)
        except StopIteration as done:
            self._steps = None
            if self._parking.task is None:
                self._result = done.value
            else:
                self._parking.wake(done.value)
        except Exception as error:  # the caller of the verb gets it, not the task that made it go on
            self._steps = None
            if not self._parking.fail(error):
                self._error = error
        finally:
            self.is_stepping = False

    def _leave(self) -> None:
        """Let the verb in progress go on by itself, as its task was cancelled."""
        steps = self._steps
        if steps is not None:
            self._steps = self.left = self._left_alone(lambda _: steps)

    def _left_alone(self, verb: "Callable[[Any], Steps[object] | Verb[object]]") -> Steps[None]:
        """Run a verb of which nobody takes the result, or the error."""
        try:
            yield from verb(self)
        except Exception:
            logger.exception("%s: a verb failed whose task was cancelled", self.name)

    def _withdraw(self) -> None:
        """Give up the verb in progress, whose task was cancelled."""
        self._steps = None
        self.noted = None

    def _check_usable(self, verb: str) -> None:
        """Trap where the verb may not begin now."""
        if self._freed:
            place = f"{verb} on {self.name}"
            raise Trap(TrapKind.ILLEGAL_RESOURCE, f"{place}, which was freed", place)
        if self._steps is not None or (self._listener is not None and verb not in _OUTPUT_VERBS):
            place = f"{verb} on {self.name}"
            if self._listener is None:
                by, using = self._parking.user_name, verb_of(self._parking.task)
            else:
                by, using = self._listener.user_name, self._listener.use
            raise Trap(TrapKind.RESOURCE_DEP, f"{place} while {by} is in {using} on it", place)
