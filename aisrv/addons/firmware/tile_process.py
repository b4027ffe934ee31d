"""The process that runs the program of a tile, and the exchange of messages with it.

A process of its own, as tiles share no memory: what its C destroys is its own, and debuggers and sanitizers
work as on any program. Source: "Firmware in C on the substrate", section The design.
"""

import logging
import mmap
import os
import select
import signal
import struct
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import trio
from msgspec import Struct

from aisrv.addons.firmware.confined_process import start_confined
from aisrv.addons.firmware.confinement import (
    ALL,
    IN_A_DEBUGGER,
    WITHOUT_LEAKS,
    Confinement,
    Rights,
    warn_of_missing_layers,
)
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.records import (
    EXIT_CODE,
    HALF_BYTES,
    LOST_PIPE,
    REQUESTS,
    RESULTS,
    SAYS_BUSY,
    SAYS_EXIT,
    SAYS_REQUESTS,
    SHARED_BYTES,
    VERSION,
    BusyReport,
    RecordError,
)

logger = logging.getLogger(__name__)

_TURN_SECONDS: Final = 0.004
"""How long a live device waits for a tile before it lets its other tasks run."""
_ANSWER_SECONDS: Final = 1.0
"""How long a program may take to say where a core is."""
_HEAD: Final = struct.Struct("<III")
"""The version, and how many bytes of requests and of results there are."""


_CODE: Final = struct.Struct("<i")
_CLOSED: Final = "closed its pipe to the simulator"


class ProgramEnded(FirmwareError):
    """The process is gone, by itself or by a signal."""

    def __init__(self, how: str, code: int | None = None, *, is_announced: bool = False) -> None:
        super().__init__(how)
        self.is_announced: Final = is_announced
        """Whether the program said so before, as `exit` does."""
        self.code: Final = code
        """Its exit code: 0 only where it announced that; None where it did not end by itself."""


def _end_of(status: int, announced: int | None) -> ProgramEnded:
    """Return how a program has ended; `status` is its process's, less than 0 for a signal."""
    if status == LOST_PIPE:
        return ProgramEnded(_CLOSED)
    if status < 0:
        return ProgramEnded(f"was ended by {signal.Signals(-status).name}")
    if announced is not None and announced & 0xFF == status:
        return ProgramEnded(f"ended with {announced}", announced, is_announced=True)
    if status:
        return ProgramEnded(f"ended with {status}", status)
    return ProgramEnded("ended without calling exit")


class ProcessSettings(Struct, frozen=True):
    """How a program runs."""

    stack_bytes: int = 65536
    """Stack of each core."""
    cpu_limit: float = 5
    """Seconds of CPU time without a verb after which it is reported where a core is; 0 for never."""
    cpu_limit_halts: bool = False
    """Whether that core is halted then."""
    has_prefix: bool = False
    """Whether each line that it prints begins with its tile and core."""
    has_posts: bool = True
    """Whether a core goes on from outputs that need no answer; else a trap of one names its very line."""
    exit_ticks: int = 0
    """Ticks that the C library takes for `exit`, while other cores run on."""
    command: tuple[str, ...] = ()
    """Begins the command that starts the program, as a debugger's."""
    rights: Rights = Rights()
    """What the program may reach beside the chip."""


def _confinement(program: Path, tile: int, settings: ProcessSettings) -> Confinement:
    """Return what holds a program; says so where that is less than elsewhere."""
    warn_of_missing_layers()
    layers = ALL
    if settings.command:
        layers = IN_A_DEBUGGER
        logger.warning(
            "tile %d: %s traces its program and reads all files: the layers against that are off",
            *(tile, settings.command[0]),
        )
    return Confinement(layers, program, settings.rights, settings.stack_bytes)


def _environment(rights: Rights) -> dict[str, str]:
    if not rights.has_sanitizer:
        return dict(os.environ)
    given = os.environ.get("ASAN_OPTIONS", "")
    return {**os.environ, "ASAN_OPTIONS": f"{WITHOUT_LEAKS}:{given}"}


class TileProcess:
    """A running program. It runs from `give` to `take`, and sleeps else."""

    def __init__(self, program: Path, tile: int, settings: ProcessSettings | None = None) -> None:
        """Start it; it waits for its first results."""
        import fcntl  # not on Windows, where no program of a tile runs

        given = settings or ProcessSettings()
        self.program: Final = program
        memory = os.memfd_create(f"tile {tile}", os.MFD_ALLOW_SEALING)
        os.ftruncate(memory, SHARED_BYTES)
        # A program that made it shorter would end the simulator, too.
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
        self._memory = mmap.mmap(memory, SHARED_BYTES)
        self._view = memoryview(self._memory)
        theirs, self._to = os.pipe()
        self._from, theirs_out = os.pipe()
        tile_settings = (
            memory,
            theirs,
            theirs_out,
            tile,
            given.stack_bytes,
            round(given.cpu_limit * 1000),
            int(given.cpu_limit_halts),
            int(given.has_prefix),
            int(given.has_posts),
            given.exit_ticks,
        )
        _HEAD.pack_into(self._memory, 0, VERSION, 0, 0)
        try:
            self._process = start_confined(
                _confinement(program, tile, given),
                [*given.command, str(program)],
                env={**_environment(given.rights), "AISRV_TILE": ",".join(map(str, tile_settings))},
                files=(memory, theirs, theirs_out),
                is_in_group=not given.command,
            )
        except FirmwareError:
            os.close(self._to)
            os.close(self._from)
            raise
        finally:
            for descriptor in (memory, theirs, theirs_out):
                os.close(descriptor)
        self._is_in_group = not given.command
        self._announced: int | None = None  # the code of the end that it says is to come
        self._news = select.epoll()
        """Readable when the program has said something, or has ended."""
        self._news.register(self._from, select.EPOLLIN)
        self._ends: int | None = None
        with suppress(OSError):  # an old kernel: the end of its pipe tells then
            self._ends = os.pidfd_open(self._process.pid)
            self._news.register(self._ends, select.EPOLLIN)
        self.is_running = True
        """Whether it runs now: from its start it does."""
        self._has_said = False
        """Whether it has said that its requests are there, or that it is gone."""
        self._is_gone = False
        self.is_interrupted = False
        """Whether it was ended as the simulator was interrupted while it ran."""
        self.on_busy: Callable[[BusyReport], None] = lambda _report: None
        """Told of a core that runs for long."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Number of the process."""
        return self._process.pid

    def give(self, results: Iterable[bytes]) -> None:
        """Let it run with these results. Raises ProgramEnded."""
        if self.is_running:  # it has just been started
            self.take()
        message = b"".join(results)
        if len(message) > HALF_BYTES:
            raise RecordError(f"results of {len(message)} bytes are more than {HALF_BYTES}")
        self._memory[RESULTS : RESULTS + len(message)] = message
        _HEAD.pack_into(self._memory, 0, VERSION, 0, len(message))
        try:
            os.write(self._to, b"\1")
        except BrokenPipeError:
            raise self._ended() from None
        self.is_running = True

    def has_answered(self) -> bool:
        """Say whether its requests are there, after waiting as long as a turn of a live device may take."""
        self._hear(_TURN_SECONDS)
        return self._has_said

    async def answered(self) -> None:
        """Wait for its requests, however long it runs; a wait that is cancelled ends it."""
        try:
            while not self._has_said:
                await trio.lowlevel.wait_readable(self._news)
                self._hear(0)
        except trio.Cancelled:
            self.kill()
            raise

    def take(self) -> memoryview:
        """Wait until it can't go on, and return its requests.

        Blocks where it has not answered: no time passes while C runs. Raises ProgramEnded, RecordError.
        """
        while not self._has_said:
            self._hear(None)
        if self._is_gone:
            raise self._ended()
        self._has_said = self.is_running = False
        size: int = _HEAD.unpack_from(self._memory)[1]
        if size > HALF_BYTES:
            raise RecordError(f"{size} bytes of requests are more than {HALF_BYTES}")
        return self._view[REQUESTS : REQUESTS + size]

    def take_soon(self) -> memoryview:
        """Do as `take` where the answer takes no time; a program that gives none is ended."""
        deadline = time.monotonic() + _ANSWER_SECONDS
        while not self._has_said and (left := deadline - time.monotonic()) > 0:
            self._hear(left)
        if not self._has_said:
            self.kill()
        return self.take()

    def _hear(self, seconds: float | None) -> None:
        """Wait as long for something that the program says, and note it: one thing, as it may say many."""
        ready = self._wait(seconds)
        if not ready:
            return
        # Where the program has ended, a process that it left may hold its pipe open.
        said = self._read() if self._from in ready else None
        if said == SAYS_EXIT:
            self._announced = _CODE.unpack_from(self._view, EXIT_CODE)[0]
        elif said == SAYS_BUSY:
            self.on_busy(BusyReport.from_memory(self._view))
        else:
            self._has_said, self._is_gone = True, said != SAYS_REQUESTS

    def _wait(self, seconds: float | None) -> set[int]:
        """Wait as long for pipe and process; return what is ready. An interrupt, as of Ctrl-C, ends it."""
        try:
            return {descriptor for descriptor, _ in self._news.poll(seconds)}
        except BaseException:
            self.is_interrupted = True
            self.kill()
            raise

    def _read(self) -> int | None:
        """Read a byte of the program, which is there; None when it is gone."""
        said = os.read(self._from, 1)
        return said[0] if said else None

    def _ended(self) -> ProgramEnded:
        """Return how the program ended whose pipe has; one that has closed it and runs on is ended."""
        self.is_running = False
        if not self._is_in_group:
            status = self._process.wait()  # the debugger's own
            return _end_of(status if self._announced is None else self._announced & 0xFF, self._announced)
        if self._has_memory():
            self.kill()
            return ProgramEnded(_CLOSED)
        if self._process.returncode is None:
            os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            self.kill()  # what it has started
        return _end_of(self._process.wait(), self._announced)

    def _has_memory(self) -> bool:
        """Return whether the process runs: one that ends gives its memory back before it closes its pipes."""
        try:
            return not Path(f"/proc/{self._process.pid}/statm").read_text().startswith("0 ")
        except OSError:
            return False

    def kill(self) -> None:
        """End it, and what it has started."""
        if self._process.returncode is None:  # until then its group's number is taken
            if self._is_in_group:
                with suppress(ProcessLookupError):  # it has left the group
                    os.killpg(self._process.pid, signal.SIGKILL)
            self._process.kill()
            self._process.wait()

    def close(self) -> None:
        """End it and give back what it has."""
        self.kill()
        self._news.close()
        for descriptor in (self._to, self._from, self._ends):
            if descriptor is not None:
                os.close(descriptor)
        self._view.release()
        self._memory.close()
