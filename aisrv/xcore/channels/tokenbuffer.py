"""A queue of tokens, in runs. It knows no task and no other end: a `ChanEnd` holds one."""

from aisrv.xcore.tokens import Run


class TokenBuffer:
    """Tokens in the order in which they came. Ask `queued` and `control` before taking one."""

    __slots__ = ("_offset", "_runs", "queued")

    def __init__(self) -> None:
        self._runs: list[Run] = []  # nine at most where it is that of an end: no deque, which takes 0.7 kB
        self._offset = 0  # bytes already taken from the first run
        self.queued = 0
        """Tokens in the queue."""

    @property
    def control(self) -> int | None:
        """The first token where that is a control token."""
        if self._runs:
            head = self._runs[0]
            if isinstance(head, int):
                return head
        return None

    def control_within(self, count: int) -> int:
        """Place from 1 of the first control token among the next `count` tokens, or 0."""
        place = -self._offset
        for run in self._runs:
            if isinstance(run, int):
                return place + 1
            place += len(run)
            if place >= count:
                break
        return 0

    def first_control(self) -> int | None:
        """Return the first control token, wherever it is; None where there is none."""
        return next((run for run in self._runs if isinstance(run, int)), None)

    def push(self, run: Run) -> None:
        """Queue data tokens, at least one, or a control token."""
        self._runs.append(run)
        self.queued += 1 if isinstance(run, int) else len(run)

    def take_control(self) -> int | None:
        """Take the first token where that is a control token; else None, and it stays."""
        head = self._runs[0]
        if not isinstance(head, int):
            return None
        self._runs.pop(0)
        self.queued -= 1
        return head

    def take_data(self, limit: int) -> bytes:
        """Take up to `limit` data tokens that came in one run; the first token must be data."""
        head = self._runs[0]
        assert not isinstance(head, int)  # noqa: S101 - for the type checker
        if len(head) - self._offset <= limit:
            taken = head[self._offset :] if self._offset else head
            self._runs.pop(0)
            self._offset = 0
        else:
            taken = head[self._offset : self._offset + limit]
            self._offset += limit
        self.queued -= len(taken)
        return taken

    def take_run(self, count: int) -> bytes:
        """Take the first run where it has just `count` data tokens; else no bytes."""
        runs = self._runs
        if runs and not self._offset:
            head = runs[0]
            if not isinstance(head, int) and len(head) == count:
                runs.pop(0)
                self.queued -= count
                return head
        return b""

    def withdraw_past(self, limit: int) -> None:
        """Drop the last tokens past the first `limit`."""
        excess = self.queued - limit
        while excess > 0:
            last = self._runs.pop()
            size = 1 if isinstance(last, int) else len(last)  # some of the first run stays, and its offset
            if not isinstance(last, int) and size > excess:
                self._runs.append(last[:-excess])
                size = excess
            self.queued -= size
            excess -= size
