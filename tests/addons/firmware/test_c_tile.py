"""What goes wrong in C: each fault halts its core with its place, and the tile's other cores run on."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from random import Random
from textwrap import dedent
from unittest.mock import patch

import pytest
import trio

from aisrv.addons.firmware.c_tile import CTile
from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.tile_process import ProcessSettings, TileProcess
from aisrv.addons.firmware.whole_program import TRAPPED, RunSettings
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.core import current_core
from aisrv.xcore.node import open_node
from aisrv.xcore.timed.classes import TIMED
from aisrv.xcore.traps import Trap
from tests.support.benches.c_programs import BITS, CASE, compiled, need_compiler, one_of, run_c
from tests.support.benches.device_time import on_virtual_time
from tests.support.oracles.past_timeline import Scheduled

PROGRAM = """
    #include <assert.h>
    #include <errno.h>
    #include <limits.h>
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <spawn.h>
    #include <sys/mman.h>
    #include <threads.h>
    #include <unistd.h>
    static int deep(int n) {
        volatile char big[500];
        big[0] = (char)n;
        return deep(n + 1) + big[0];
    }
    static void bad(void) {
        volatile int zero = 0, least = INT_MIN;
        (void)zero, (void)least;
        (void)deep;
        FAULT;
    }
    DECLARE_JOB(sends, (chanend_t));
    void sends(chanend_t c) { delay_ticks(100); for (int i = 0; i < 50; i++) chan_out_word(c, i); }
    DECLARE_JOB(adds, (chanend_t));
    void adds(chanend_t c) {
        unsigned sum = 0;
        for (int i = 0; i < 50; i++) sum += chan_in_word(c);
        printf("sum %u\\n", sum);
        fflush(stdout);
    }
    int main(void) {
        channel_t c = chan_alloc();
        PAR_JOBS(PJOB(bad, ()), PJOB(sends, (c.end_a)), PJOB(adds, (c.end_b)));
        return 0;
    }
"""
MMAP = 'mmap(NULL, 1 << 28, PROT_READ, MAP_SHARED, fileno(fopen("/proc/self/exe", "r")), 0)'
"""Most of it lies behind the end of the file."""
HALTED = {
    "*(volatile int *)0 = 1": "LOAD_STORE (5): segmentation fault at 0",
    f"zero = ((volatile char *){MMAP})[(1 << 28) - 1]": "LOAD_STORE (5): bus error at ADDRESS",
    "deep(0)": "LOAD_STORE (5): stack overflow",
    "xassert(zero)": "ECALL (8): xassert(zero) failed at program.c:20",
    "xassert_not(!zero)": "ECALL (8): xassert_not(!zero) failed at program.c:20",
    "xassert_not_after(get_reference_time() - 5)": (
        "ECALL (8): xassert_not_after(get_reference_time() - 5) failed at program.c:20"
    ),
    "assert(zero)": "ECALL (8): assert(zero) failed at program.c:20",
    "__builtin_trap()": "ARITHMETIC (7): illegal instruction or division by zero",
    'printf("%d", 1 / zero)': "ARITHMETIC (7): illegal instruction or division by zero",
    "zero = least / (zero - 1)": "ARITHMETIC (7): arithmetic error",
    "chan_out_word(chanend_alloc(), 5)": (
        "LINK_ERROR (1): output on chanend 0x80000302, which has no destination"
    ),
    "chan_out_word(0x80001f02, 5)": (
        "ILLEGAL_RESOURCE (4): chan_out_word on 0x80001f02, which is not a resource of this program"
    ),
    "chanend_in_word(hwtimer_alloc())": "ILLEGAL_RESOURCE (4): inuint on timer 0x80000001",
    "lock_release(lock_alloc())": "ILLEGAL_RESOURCE (4): release of lock 0x80000005, which nobody holds",
    "chan_out_buf_byte(1, (uint8_t *)bad, 2000000)": (
        "LOAD_STORE (5): a buffer larger than 1 MiB, of which a tile has half"
    ),
    "TRIGGERABLE_WAIT_EVENT(x); x:": "ECALL (8): a wait with no event enabled",
}
"""Faults, and what is told of each before its place."""
CALLS = (
    "fork()",
    "vfork()",
    "clone(NULL, NULL, 0, NULL)",
    'system("true")',
    'popen("true", "r")',
    'execv("/bin/true", NULL)',
    'execve("/bin/true", NULL, NULL)',
    'execvp("true", NULL)',
    'execvpe("true", NULL, NULL)',
    "fexecve(0, NULL, NULL)",
    'execl("/bin/true", "true", NULL)',
    'execlp("true", "true", NULL)',
    'execle("/bin/true", "true", NULL, NULL)',
    'posix_spawn(NULL, "/bin/true", NULL, NULL, NULL, NULL)',
    'posix_spawnp(NULL, "true", NULL, NULL, NULL, NULL)',
    "pthread_create(NULL, NULL, NULL, NULL)",
    "thrd_create(NULL, NULL, NULL)",
)
"""Calls that would begin another process or thread."""


@pytest.fixture(autouse=True)
def _tools() -> None:
    need_compiler("addr2line")


def children_of(pid: int) -> set[int]:
    """Processes whose parent is a process."""
    found = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == pid:
            found.add(int(status.parent.name))
    return found


GNU = ("-D_GNU_SOURCE",)
"""Declares what glibc has beyond C, before any header is read."""
OTHERS = ("for (;;) {}", "kill(getpid(), SIGKILL)")
LOST = ("char *volatile p = malloc(9); free(p); free(p)", "abort()")
"""Faults that end the program of a tile."""
FAULTS = (*HALTED, *CALLS, *LOST, *OTHERS)
FaultyRun = Callable[..., int]


@pytest.fixture
def run_faulty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FaultyRun:
    """Return what runs a program with a fault in its first core: one program, told which it is."""
    text = PROGRAM.replace("FAULT", one_of(FAULTS))

    def run(fault: str, settings: RunSettings | None = None, bits: int = 64) -> int:
        monkeypatch.setenv(CASE, str(FAULTS.index(fault)))
        return run_c(tmp_path, text, settings, options=GNU, bits=bits)

    return run


def told_of(run_faulty: FaultyRun, fault: str, caplog: pytest.LogCaptureFixture, bits: int = 64) -> str:
    """Run the program with a fault in its first core; return what is told of that core's trap."""
    before = children_of(os.getpid())
    assert run_faulty(fault, bits=bits) == TRAPPED
    assert children_of(os.getpid()) <= before
    (record,) = caplog.records
    told = re.fullmatch(
        r"tile 0 core 0 \(main\) trapped at tick 0( in [\w ]+)?: (.*); the core is halted",
        record.getMessage(),
    )
    assert told is not None
    return told[2]


IN_BAD = "in bad at program.c:20, called by main at program.c:33"


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("fault", HALTED)
def test_a_fault_halts_its_core_alone(
    run_faulty: FaultyRun,
    fault: str,
    bits: int,
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    told = told_of(run_faulty, fault, caplog, bits)
    place = (
        "in deep at program.c:13, called by deep at program.c:14, 23 times" if fault == "deep(0)" else IN_BAD
    )
    assert re.sub("error at 0x[0-9a-f]+", "error at ADDRESS", told) == f"{HALTED[fault]}, {place}"
    assert capfd.readouterr().out == "sum 1225\n"


@pytest.mark.parametrize("call", CALLS)
def test_no_other_process_or_thread_begins(
    run_faulty: FaultyRun, call: str, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    name = call.partition("(")[0]
    reason = f"ILLEGAL_INSTRUCTION (3): {name}() is not there on a tile, {IN_BAD}"
    assert told_of(run_faulty, call, caplog) == reason
    assert capfd.readouterr().out == "sum 1225\n"


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("fault", LOST)
def test_a_fault_of_the_heap_halts_the_tile(
    run_faulty: FaultyRun, fault: str, bits: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_faulty(fault, bits=bits) == TRAPPED
    messages = sorted(record.getMessage() for record in caplog.records)
    assert [message[: len("tile 0 core 0")] for message in messages] == [f"tile 0 core {n}" for n in range(3)]
    assert f"ECALL (8): abort, {IN_BAD}" in messages[0]
    assert all(f"lost with its tile: abort, {IN_BAD}" in message for message in messages[1:])


def test_a_program_that_is_killed_halts_the_tile(
    run_faulty: FaultyRun, caplog: pytest.LogCaptureFixture
) -> None:
    assert run_faulty("kill(getpid(), SIGKILL)") == TRAPPED
    assert len(caplog.records) == 3
    for record in caplog.records:
        assert (
            "ECALL (8): the program of tile 0 was ended by SIGKILL; the core is halted" in record.getMessage()
        )


def test_a_program_that_writes_over_the_runtime_is_lost(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    text = """
        uint32_t runtime_verb(uint32_t verb, uint32_t a, uint32_t b);
        int main(void) { return (int)runtime_verb(999, 0, 0); }
    """
    assert run_c(tmp_path, text) == TRAPPED
    (record,) = caplog.records
    assert "ECALL (8): the program of tile 0 is lost: there is no verb 999" in record.getMessage()


@pytest.mark.parametrize("bits", BITS)
def test_an_endless_loop_is_reported_again_and_again(
    run_faulty: FaultyRun, bits: int, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    processes = {0: ProcessSettings(cpu_limit=0.1, cpu_limit_halts=True)}
    assert run_faulty("for (;;) {}", RunSettings(processes=processes), bits) == TRAPPED
    first, second = (record.getMessage() for record in caplog.records)
    assert first == f"tile 0 core 0 (main): 0.1 s of CPU time without a verb, {IN_BAD}"
    assert f"ECALL (8): no verb within the limit of CPU time, {IN_BAD}; the core is halted" in second
    assert capfd.readouterr().out == "sum 1225\n"


@pytest.mark.parametrize("bits", BITS)
def test_a_trap_names_the_frames(tmp_path: Path, bits: int) -> None:
    text = """
        __attribute__((noinline)) void inner(int *p) { *p = 1; }
        __attribute__((noinline)) void outer(int n) { inner((int *)(long)n); }
        int main(void) { outer(64); }
    """
    with pytest.raises(
        Trap,
        match=r"at 0x40, in inner at program\.c:1, called by outer at program\.c:2, main at",
    ):
        run_c(tmp_path, text, RunSettings(stops_at_trap=True), bits=bits)


POSTED = {
    "a port": (
        """
        int main(void) {
            port_out(XS1_PORT_1A, 1);
            delay_ticks(100);
            return 0;
        }
        """,
        "out on port 1A, which is not enabled",
    ),
    "another tile": (
        """
        void main_tile0(chanend_t c) { chanend_free(c);
            chanend_out_word(c, 7);
            delay_ticks(100);
        }
        void main_tile1(chanend_t c) { (void)c; }
        """,
        "outuint on 0x80000002, which is not a resource of this program",
    ),
}
"""Programs whose output in line 2 traps before line 3, and the reason."""


@pytest.mark.parametrize("kind", POSTED)
@pytest.mark.parametrize("has_posts", [True, False])
def test_a_trap_of_a_posted_output_names_its_line_where_it_is_waited_for(
    tmp_path: Path, kind: str, has_posts: bool
) -> None:
    text, reason = POSTED[kind]
    function = "main_tile0" if "main_tile0" in text else "main"
    place = f"at or before in {function} at program.c:3" if has_posts else f"in {function} at program.c:2"
    processes = {tile: ProcessSettings(has_posts=has_posts) for tile in range(2)}
    with pytest.raises(Trap) as trapped:
        run_c(tmp_path, text, RunSettings(processes=processes, stops_at_trap=True))
    assert str(trapped.value) == f"ILLEGAL_RESOURCE (4): {reason}, {place}"


@pytest.mark.parametrize("has_posts", [True, False])
def test_outputs_take_the_same_time_posted_or_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], has_posts: bool
) -> None:
    text = """
        void main_tile0(chanend_t c) {
            for (int i = 0; i < 70; i++) chanend_out_word(c, i);
            chanend_out_end_token(c);
        }
        void main_tile1(chanend_t c) {
            unsigned sum = 0;
            for (int i = 0; i < 70; i++) sum += chanend_in_word(c);
            chanend_check_end_token(c);
            printf("%u at %u\\n", sum, (unsigned)get_reference_time());
        }
    """
    processes = {tile: ProcessSettings(has_posts=has_posts) for tile in range(2)}
    run_c(tmp_path, text, RunSettings(processes=processes, takes_chip_time=True))
    assert capfd.readouterr().out == "2415 at 127\n"


TWO_TILES = """
    void main_tile0(chanend_t c) {
        chan_out_word(c, 1);
        chan_in_word(c);
        puts("runs");
        fflush(stdout);
        for (;;) {}
    }
    void main_tile1(chanend_t c) {
        chan_in_word(c);
        chan_out_word(c, 2);
        chan_in_word(c);
    }
"""


def test_no_process_is_left_where_the_simulator_is_killed(tmp_path: Path) -> None:
    """Neither the one that loops, nor the one that waits."""
    program = compiled(tmp_path, TWO_TILES)
    code = f"""
        from pathlib import Path
        from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
        program = Path({str(program)!r})
        run_whole_programs({{0: program, 1: program}}, RunSettings())
    """
    with subprocess.Popen(
        [sys.executable, "-c", dedent(code)], stdout=subprocess.PIPE, text=True
    ) as simulator:
        assert simulator.stdout is not None
        assert simulator.stdout.readline() == "runs\n"
        children = children_of(simulator.pid)
        assert len(children) == 2
        simulator.kill()
    deadline = time.monotonic() + 30
    while any(map(is_there, children)):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_there(pid: int) -> bool:
    """Whether a process runs; one that nobody has waited for does not."""
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except FileNotFoundError:
        return False


def test_an_interrupt_ends_an_endless_loop(tmp_path: Path) -> None:
    program = compiled(tmp_path, 'int main(void) { puts("runs"); fflush(stdout); for (;;) {} }')
    code = f"""
        import signal
        from pathlib import Path
        from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
        signal.signal(signal.SIGINT, signal.default_int_handler)  # it may be ignored where tests run
        try:
            run_whole_programs({{0: Path({str(program)!r})}}, RunSettings())
        except KeyboardInterrupt:
            print("interrupted")
    """
    with subprocess.Popen(
        [sys.executable, "-c", dedent(code)], stdout=subprocess.PIPE, text=True
    ) as simulator:
        assert simulator.stdout is not None
        assert simulator.stdout.readline() == "runs\n"
        os.kill(simulator.pid, signal.SIGINT)
        assert simulator.stdout.readline() == "interrupted\n"


TIMED_WORDS = """
    void sends(chanend_t c, unsigned count) {
        while (count--) chanend_out_word(c, count);
        chanend_out_end_token(c);
    }
    unsigned takes(chanend_t c, unsigned count) {
        unsigned sum = 0;
        while (count--) sum += chanend_in_word(c);
        chanend_check_end_token(c);
        return sum;
    }
    void reads(unsigned until) { while (get_reference_time() < until) {} }
"""


def timed_words(program: Path, seed: int) -> tuple[list[int], set[str]]:
    """Ticks at which tasks of C end in device time, and cores that waited past the timeline."""

    async def main() -> tuple[list[int], set[str]]:
        ends: list[int] = []
        watch = Scheduled()
        with ExitStack() as stack:
            async with open_node(classes=TIMED) as node:
                processes = [TileProcess(program, number) for number in range(2)]
                tiles = [
                    stack.enter_context(CTile(*each)) for each in zip(node.tiles, processes, strict=True)
                ]

                async def run(tile: CTile, slot: int, function: int, *arguments: ChanEnd | int) -> None:
                    await tile.run(slot, function, f"task {slot}", arguments)
                    ends.append(node.runtime.tick_of(current_core()))

                trio.lowlevel.add_instrument(watch)
                for slot in range(2):
                    a, b = node.channel(*node.tiles)
                    node.tiles[0].start(run, tiles[0], slot, 0, a, 20)
                    node.tiles[1].start(run, tiles[1], slot, 1, b, 20)
                node.tiles[0].start(run, tiles[0], 2, 2, 1_000)
        trio.lowlevel.remove_instrument(watch)
        return sorted(ends), watch.past

    with (
        patch("trio._core._run._ALLOW_DETERMINISTIC_SCHEDULING", True),
        patch("trio._core._run._r", Random(seed)),
    ):
        return on_virtual_time(main)


def test_in_device_time_tasks_in_c_take_the_chip_s_time_and_wait_by_the_timeline(tmp_path: Path) -> None:
    source = tmp_path / "words.c"
    source.write_text("#include <xcore/channel.h>\n#include <xcore/hwtimer.h>\n" + dedent(TIMED_WORDS))
    program = build(Program((Unit((source,)),), ("sends", "takes", "reads")), need_compiler())
    first, past = timed_words(program, 0)
    assert past == set()
    # A word takes 2 slots of 5 clocks, at 6 clocks a tick; the loop ends at its tick.
    assert 34 <= first[0] < 400
    assert 1_000 <= first[-1] < 1_100
    for seed in range(1, 4):
        assert timed_words(program, seed) == (first, set())
