"""Programs on the model: turn by turn, or in all ways in which they may end."""

from dataclasses import dataclass, field
from typing import Any, Final

from tests.support.oracles.substrate.draws import Op
from tests.support.oracles.substrate.model import Abandoned, Core, Model, Steps, Trapped, Withdrawn
from tests.support.oracles.substrate.model_verbs import VERBS
from tests.support.oracles.substrate.programs import Program

MANY_STATES: Final = 300


@dataclass
class Life(Core):
    """A core with its part of the program."""

    ops: list[Op] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    status: str = "idle"
    may_begin: bool = False


@dataclass(frozen=True)
class Outcome:
    """How a program went, as far as it got."""

    results: tuple[tuple[Any, ...], ...]
    """Of each core: what its verbs returned, "cancelled", or ("trap", kind)."""
    statuses: tuple[str, ...]
    logs: tuple[tuple[Any, ...], ...]
    ends: tuple[Any, ...]
    """Of each end: tokens buffered, up to eight, its source, the claims on it, its route."""
    progress: tuple[Any, ...] = ()
    """Verbs that each core was done with after each turn."""


class Execution:
    """A program on its way; `freely` all cores go on by themselves."""

    def __init__(self, program: Program, *, freely: bool = False) -> None:
        self.model: Final = Model(program, freely=freely)
        self.cores: Final = [
            Life(tile if program.as_cores else None, ops=ops)
            for tile, ops in zip(program.core_tiles, program.cores, strict=True)
        ]
        self._lives: Final = [self._live(core) for core in self.cores]
        self._choices: list[tuple[int, Any]] = []

    def _live(self, core: Life) -> Steps[None]:
        for name, *arguments in core.ops:
            while not core.may_begin and not self.model.freely:
                yield None
            core.may_begin = False
            core.status = "busy"
            self.model.moved = True
            try:
                result = yield from VERBS[name](self.model, core, *arguments)
            except Withdrawn:
                result = "cancelled"
            except Abandoned:
                result = "abandoned"
            except Trapped as trap:
                core.results.append(("trap", int(trap.kind)))
                core.status = "trap"
                self.model.moved = True
                return
            core.results.append(result)
            core.status = "idle"
            self.model.moved = True

    def begin(self, core: int) -> None:
        """Let a core begin its next verb where it is idle."""
        self.cores[core].may_begin = self.cores[core].status == "idle"

    def cancel(self, core: int) -> None:
        """Cancel the verb that a core is in."""
        if self.cores[core].status == "busy":
            self._advance(core, Withdrawn())

    def settle(self) -> None:
        """Let all cores go as far as they can without a choice; where not `freely` the first is taken."""
        self.model.moved = True
        while self.model.moved:
            self.model.moved = False
            self._choices = []
            for core in range(len(self.cores)):
                self._advance(core)

    def _advance(self, core: int, sent: object = None) -> None:
        life = self._lives[core]
        try:
            choices = life.throw(sent) if isinstance(sent, Withdrawn) else life.send(sent)
            while choices and not self.model.freely:
                choices = life.send(choices[0])
        except StopIteration:
            return
        self._choices += [(core, choice) for choice in choices or ()]

    def decide(self, number: int) -> None:
        """Take one of the choices that are open."""
        core, choice = self._choices[number]
        self.cores[core].history.append(choice)
        self._advance(core, choice)

    @property
    def choices(self) -> int:
        """How many choices are open."""
        return len(self._choices)

    def outcome(self, progress: tuple[Any, ...] = ()) -> Outcome:
        """Describe how the program stands."""
        return Outcome(
            tuple(tuple(core.results) for core in self.cores),
            tuple(core.status for core in self.cores),
            tuple(tuple(core.log) for core in self.cores),
            tuple((tuple(end.buffer), end.source, tuple(end.claims), end.route) for end in self.model.ends),
            progress,
        )

    def state(self) -> Any:
        """All that what is to come depends on."""
        return self.outcome(), tuple(tuple(core.history) for core in self.cores)


def lockstep(program: Program) -> tuple[Outcome, bool]:
    """Run a program turn by turn; how it went, and whether the rules leave some of that open."""
    run = Execution(program)
    progress = []
    run.settle()
    for turn in program.turns:
        if isinstance(turn, int):
            run.begin(turn)
        else:
            run.cancel(turn[1])
        run.settle()
        progress.append(tuple(len(core.results) for core in run.cores))
    return run.outcome(tuple(progress)), run.model.is_vague


def outcomes(program: Program) -> set[Outcome] | None:
    """All ways in which a program may end; None where there are too many states to look at."""
    found: set[Outcome] = set()
    seen: set[Any] = set()
    todo: list[tuple[int, ...]] = [()]
    while todo:
        decisions = todo.pop()
        run = Execution(program, freely=True)
        run.settle()
        for decision in decisions:
            run.decide(decision)
            run.settle()
        if (state := run.state()) in seen:
            continue
        seen.add(state)
        if len(seen) > MANY_STATES:
            return None
        if not run.choices:
            found.add(run.outcome())
        todo += [(*decisions, number) for number in range(run.choices)]
    return found
