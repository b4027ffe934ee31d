"""A run on a cluster, from its client's side: shards are submitted, their parts are awaited in the folder.

Only the folder says what is done. So whatever dies, the run goes on: a worker's shards are run by others, as
Dask does it; after a scheduler is lost the client waits for the next one, looks which parts are there, and
submits the others; and a client that died is simply run again. A shard that ends its workers is halved until
its examples run in a process each.
"""

import asyncio
import concurrent.futures
import logging
import os
import platform
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from distributed import Client, KilledWorker

from aisrv.addons.evaluate.cluster import ClusterError, ClusterSettings
from aisrv.addons.evaluate.fleet.job import write_job
from aisrv.addons.evaluate.fleet.pieces import Pieces
from aisrv.addons.evaluate.fleet.tasks import Done, run_one_by_one, run_piece, run_shard
from aisrv.addons.evaluate.folder.hashes import disown, hash_path
from aisrv.addons.evaluate.folder.part_format import PartError, PartRows
from aisrv.addons.evaluate.folder.parts import Parts, describe_refused
from aisrv.addons.evaluate.folder.plan import plan_hash, read_plan
from aisrv.addons.evaluate.request import Loaded, Request
from aisrv.addons.evaluate.running.answers import Answers
from aisrv.listeners.failures import first_cause
from aisrv.values.heeded_signals import heeded
from aisrv.values.printable import printable

AHEAD: Final = 1000
"""Shards that are submitted before the first of them is done."""
SMALLEST_PIECE: Final = 16
"""Examples of a range that is not halved: each gets a process of its own."""
CAREFUL_ATTEMPTS: Final = 20
"""Times that workers may die on examples which have processes of their own: then it is not the examples."""
CONNECT_SECONDS: Final = 10.0
PAUSES: Final = (1.0, 2.0, 4.0, 8.0, 15.0, 30.0)
"""Seconds between attempts to reach a scheduler; the last one again and again."""
SIGHT_PAUSES: Final = (0.1, 0.5, 2.0, 5.0)
"""Seconds in which a network's file system may show a part that a worker has written."""

WATCH_SECONDS: Final = 5.0
"""Seconds between looks for workers, of whose absence no scheduler tells."""
REFUSED: Final = 2
"""Exit code where a worker does not have what the plan says."""

_log = logging.getLogger(__name__)

Task = Callable[[str, int, int, int], Done]


class _SchedulerLost(Exception):
    """The connection to the scheduler is gone, and what was submitted with it."""


class ClusterRun:
    """One run over the shards that are missing, by `run`."""

    def __init__(
        self,
        settings: ClusterSettings,
        request: Request,
        loaded: Loaded,
        answers: Answers,
        parts: Parts,
        on_shard: Callable[[int, int], None],
    ) -> None:
        """Take the cluster, what runs, and where answers go.

        `on_shard` is called with the first example of each shard that is done, and the one after its last.
        """
        assert request.folder is not None  # noqa: S101 - the caller saw to it
        self._settings = settings
        self._request = request
        self._loaded = loaded
        self._answers = answers
        self._parts = parts
        self._folder = Path(os.path.abspath(request.folder))  # noqa: PTH100 - links stay, as workers have them
        self._pieces = Pieces(self._folder, parts)
        self._on_shard = on_shard
        self._stop = asyncio.Event()
        self._name = f"evaluate-{loaded.file.stem}-{plan_hash(read_plan(request.folder))[:8]}"
        self._client_id = os.urandom(4).hex()
        self._submitted = 0
        self._waiting: dict[tuple[str, str, int], asyncio.Task[None]] = {}

    @property
    def was_stopped(self) -> bool:
        """Return whether Ctrl-C ended it early."""
        return self._stop.is_set()

    async def run(self) -> None:
        """Run all that is missing; EvaluateError, OSError. A second Ctrl-C raises KeyboardInterrupt."""
        write_job(self._folder, self._request, self._loaded)
        # Dask logs, with tracebacks, each connection that is lost: what counts is said by this run.
        for name in ("distributed", "distributed.client"):
            logging.getLogger(name).setLevel(logging.CRITICAL)
        loop = asyncio.get_running_loop()
        main = asyncio.current_task()
        assert main is not None  # noqa: S101 - this is it

        def interrupt() -> None:
            if self._stop.is_set():
                main.cancel()
            self._stop.set()

        # Of Dask's own tasks, which end with the connection: nobody waits for them.
        loop.set_exception_handler(lambda _loop, context: _log.debug("%s", context))
        numbers = heeded(signal.SIGINT)
        for number in numbers:
            loop.add_signal_handler(number, interrupt)
        try:
            await self._connected()
            self._missing()  # what was begun at Ctrl-C is there by now, too
            self._remove_left()
        except asyncio.CancelledError:
            raise KeyboardInterrupt from None
        finally:
            for number in numbers:
                loop.remove_signal_handler(number)

    async def _connected(self) -> None:
        """Run on one scheduler after another until all is done."""
        lost = time.monotonic()
        attempt = 0
        while not self._stop.is_set() and self._missing():
            try:
                client = await Client(
                    self._settings.address,
                    asynchronous=True,
                    timeout=min(CONNECT_SECONDS, max(self._settings.wait, 1.0)),
                    security=self._settings.security(),
                    set_as_default=False,
                )
            except OSError as error:  # as Dask's time-outs are
                if time.monotonic() - lost > self._settings.wait:
                    raise ClusterError(
                        f"{self._settings.address}: no scheduler for {self._settings.wait:g} s "
                        f"({_first_line(error)}); aisrv fleet up starts one here"
                    ) from None
                if not attempt:
                    _log.warning(
                        "%s: waiting for a scheduler: %s", self._settings.address, _first_line(error)
                    )
                await self._pause(PAUSES[min(attempt, len(PAUSES) - 1)])
                attempt += 1
                continue
            try:
                if await self._serve(client):
                    return
            finally:
                with suppress(OSError):
                    await client.close()
            _log.warning("%s: the scheduler is gone: waiting for the next one", self._settings.address)
            lost, attempt = time.monotonic(), 0
            await self._pause(PAUSES[0])

    def _remove_left(self) -> None:
        """Remove what killed workers left aside."""
        if not self._stop.is_set():
            self._pieces.remove_all()
        self._parts.remove_left()

    async def _pause(self, seconds: float) -> None:
        """Wait, but not after Ctrl-C."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._stop.wait()

    def _missing(self) -> list[int]:
        """Take the parts that are there, and return the shards without one."""
        missing = [shard for shard in range(self._answers.shards) if not self._answers.is_complete(shard)]
        there, refused = self._parts.names(), []
        for shard in missing:
            if hash_path(self._parts.path(shard)).name in there:  # which is written last
                try:
                    self._take(shard)
                except PartError as error:
                    disown(self._parts.path(shard))
                    refused.append(error)
        if refused:
            _log.warning("%s", printable(describe_refused(refused)))
        return [shard for shard in missing if not self._answers.is_complete(shard)]

    async def _serve(self, client: Client) -> bool:
        """Run what is missing with one scheduler; return False where it is lost. EvaluateError, OSError."""
        room = asyncio.Semaphore(AHEAD)
        try:
            async with asyncio.TaskGroup() as watches:
                watching = [
                    watches.create_task(self._watch_workers(client)),
                    watches.create_task(self._stop_at_interrupt(client)),
                ]
                async with asyncio.TaskGroup() as shards:
                    for shard in self._missing():
                        await room.acquire()
                        if self._stop.is_set():
                            break
                        shards.create_task(self._shard(client, room, shard))
                for each in watching:
                    each.cancel()
        except BaseExceptionGroup as group:
            return _outcome(group)
        return True

    async def _shard(self, client: Client, room: asyncio.Semaphore, shard: int) -> None:
        first, end = self._answers.bounds(shard)
        try:
            try:
                await self._submit(client, run_shard, shard, first, end)
            except KilledWorker:
                await self._cut(client, shard, first, end)
                if self._stop.is_set():
                    return
                self._join(shard, first, end)
            await self._see(shard)
        finally:
            room.release()

    async def _submit(self, client: Client, task: Task, shard: int, first: int, end: int) -> None:
        """Have a worker do a task; KilledWorker, _SchedulerLost, ClusterError."""
        self._submitted += 1
        # Tuples of one name are one line of the dashboard; a key of its own is never that of another client.
        key = (self._name, self._client_id, self._submitted)
        future = client.submit(task, str(self._folder), shard, first, end, key=key, pure=False, retries=0)
        current = asyncio.current_task()
        assert current is not None  # noqa: S101 - it runs
        self._waiting[key] = current
        try:
            done: Done = await future
        except concurrent.futures.CancelledError:
            raise _SchedulerLost from None
        except (KilledWorker, asyncio.CancelledError):
            raise
        except Exception as error:
            raise ClusterError(
                f"a worker: {type(error).__name__}: {_first_line(error)}; "
                "workers need aisrv and its packages as they are here"
            ) from None
        finally:
            del self._waiting[key]
            future.release()
        if done["problem"]:
            raise ClusterError(f"the worker on {done['worker']}: {done['problem']}", REFUSED)

    async def _cut(self, client: Client, shard: int, first: int, end: int) -> None:
        """Run examples on which workers died in smaller pieces, and at last each in a process of its own."""
        if end - first <= SMALLEST_PIECE:
            await self._one_by_one(client, shard, first, end)
            return
        middle = (first + end) // 2
        for low, high in ((first, middle), (middle, end)):
            if self._stop.is_set():
                return
            try:
                await self._submit(client, run_piece, shard, low, high)
            except KilledWorker:
                await self._cut(client, shard, low, high)

    async def _one_by_one(self, client: Client, shard: int, first: int, end: int) -> None:
        for _ in range(CAREFUL_ATTEMPTS):
            try:
                await self._submit(client, run_one_by_one, shard, first, end)
            except KilledWorker:
                continue
            return
        raise ClusterError(
            f"workers died {CAREFUL_ATTEMPTS} times on examples {first} to {end - 1}, which had processes of "
            "their own: see the logs of the workers"
        )

    def _join(self, shard: int, first: int, end: int) -> None:
        """Make a part of its pieces."""
        answers = Answers(
            end - first, self._loaded.output_bytes, self._answers.shard, files=bool(self._loaded.data.files)
        )
        self._pieces.read(shard, first, answers)
        if not answers.done.all():
            raise ClusterError(f"{self._folder}: pieces of part {shard} are missing: run again")
        rows = PartRows(first, answers, self._loaded.labels[first:end])
        self._parts.write(shard, rows, platform.node())
        self._pieces.remove(shard)

    async def _see(self, shard: int) -> None:
        """Take a part that a worker has written, as soon as it is seen here; PartError, ClusterError."""
        for pause in (*SIGHT_PAUSES, None):
            try:
                self._take(shard)
            except PartError:
                if pause is None and self._parts.path(shard).exists():
                    raise
            else:
                return
            if pause is not None:
                await asyncio.sleep(pause)
                self._parts.names()  # which has a network's file system look again
        raise ClusterError(
            f"{self._parts.path(shard)} is not there, though a worker wrote it: "
            "the folder must be on a file system that all workers share"
        )

    def _take(self, shard: int) -> None:
        self._parts.read_part(self._answers, shard, self._loaded.labels)
        self._on_shard(*self._answers.bounds(shard))

    async def _watch_workers(self, client: Client) -> None:
        """Say when there is no worker, and give up after a while."""
        seen = time.monotonic()
        said = False
        while True:
            try:
                found = await client.scheduler.identity(n_workers=1)
            except OSError:  # it is gone, as those who wait for shards are told
                return
            now = time.monotonic()
            if found["workers"]:
                seen, said = now, False
            elif now - seen > self._settings.wait:
                raise ClusterError(f"{self._settings.address}: no worker for {self._settings.wait:g} s")
            elif not said and now - seen > WATCH_SECONDS:
                _log.warning("%s: waiting for a worker", self._settings.address)
                said = True
            await asyncio.sleep(min(WATCH_SECONDS, max(self._settings.wait / 4, 0.1)))

    async def _stop_at_interrupt(self, client: Client) -> None:
        """At Ctrl-C give up all shards that no worker has begun."""
        await self._stop.wait()
        try:
            begun = {key for keys in (await client.processing()).values() for key in keys}
        except OSError:
            begun = set()
        for key, waiting in list(self._waiting.items()):
            if key not in begun:
                waiting.cancel()


def _outcome(group: BaseExceptionGroup[BaseException]) -> bool:
    """Return False where the scheduler is lost, whatever came of it; else raise the first cause."""
    if group.subgroup(_SchedulerLost) is not None:
        return False
    raise first_cause(group)


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0] or type(error).__name__
