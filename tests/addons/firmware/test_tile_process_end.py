"""How the process of a tile ends: success is what a program announces, and any other end is none."""

import subprocess
from pathlib import Path
from subprocess import DEVNULL, PIPE

import pytest
import trio

from aisrv.addons.firmware.tile_process import ProcessSettings
from aisrv.addons.firmware.whole_program import TRAPPED, RunSettings
from aisrv.xcore.node import Node
from tests.addons.firmware.pyxsim.test_plugin import passed
from tests.support.benches.c_programs import CASE, need_compiler, one_of, run_c
from tests.support.programs import AISRV, run_process

GNU = ("-D_GNU_SOURCE",)
CLOSE = "for (int each = 3; each < 100; each++) close(each)"
ANNOUNCED = {
    "return 0": 0,
    "return 7": 7,
    "return -1": 255,
    "return 256": TRAPPED,
    "exit(0)": 0,
    "exit(5)": 5,
    "exit(256)": TRAPPED,
    "_exit(0)": 0,
    "_exit(6)": 6,
    "_Exit(0)": 0,
    "_Exit(4)": 4,
    "quick_exit(0)": 0,
    "quick_exit(3)": 3,
    'error(2, 0, "the C library calls exit by itself")': 2,
    "on_exit(leaves, NULL); exit(9)": 0,
}
"""Ends that a program announces, and the exit code of the run."""
CLOSED = "closed its pipe to the simulator"
LOST = {
    f"{CLOSE}; delay_ticks(1)": CLOSED,
    f"{CLOSE}; exit(0)": CLOSED,
    f"{CLOSE}; _exit(0)": CLOSED,
    f"{CLOSE}; return 0": CLOSED,
    f"{CLOSE}; for (;;) {{}}": CLOSED,
    f"{CLOSE}; pause()": CLOSED,
    f'{CLOSE}; while (open("/dev/null", O_RDWR) < 99) {{}} delay_ticks(1)': CLOSED,
    "shutdown_reads(); delay_ticks(1)": CLOSED,
    "syscall(SYS_exit_group, 0)": "ended without calling exit",
    "syscall(SYS_exit, 0)": "ended without calling exit",
    "kill(getpid(), SIGTERM)": "was ended by SIGTERM",
    "kill(getpid(), SIGKILL)": "was ended by SIGKILL",
    "atexit(dies); exit(0)": "was ended by SIGKILL",
}
"""Ends of a process that are none of its program, and what is told of them."""
PROGRAM = """
    #include <errno.h>
    #include <error.h>
    #include <fcntl.h>
    #include <signal.h>
    #include <sys/syscall.h>
    #include <unistd.h>
    static void leaves(int code, void *unused) { (void)unused; _exit(code == 9 ? 0 : 1); }
    static void dies(void) { kill(getpid(), SIGKILL); }
    static void shutdown_reads(void) {
        for (int each = 3; each < 100; each++)
            if ((fcntl(each, F_GETFL) & O_ACCMODE) == O_RDONLY) close(each);
    }
    int main(void) {
        delay_ticks(1);
        STATEMENT
        return 0;
    }
"""


def run_case(folder: Path, monkeypatch: pytest.MonkeyPatch, cases: dict[str, object], case: str) -> int:
    monkeypatch.setenv(CASE, str(list(cases).index(case)))
    return run_c(folder, PROGRAM.replace("STATEMENT", one_of(cases)), options=GNU)


@pytest.mark.parametrize("end", ANNOUNCED)
def test_an_end_that_is_announced_has_its_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    assert run_case(tmp_path, monkeypatch, {**ANNOUNCED}, end) == ANNOUNCED[end]
    assert not caplog.records


@pytest.mark.parametrize("end", LOST)
def test_an_end_that_is_not_announced_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, end: str
) -> None:
    assert run_case(tmp_path, monkeypatch, {**LOST}, end) == TRAPPED
    (record,) = caplog.records
    assert f"ECALL (8): the program of tile 0 {LOST[end]}; the core is halted" in record.getMessage()


def test_a_program_that_ends_by_another_code_without_a_word_keeps_it(tmp_path: Path) -> None:
    text = "#include <sys/syscall.h>\n#include <unistd.h>\nint main(void) { syscall(SYS_exit_group, 77); }"
    assert run_c(tmp_path, text, options=GNU) == 77


BESIDE = """
    #include <unistd.h>
    DECLARE_JOB(job, (chanend_t));
    static void fails(void *unused) { (void)unused; delay_ticks(5); WRONG; }
    int main(void) { run_async(fails, NULL, NULL); delay_ticks(100); END; }
"""


@pytest.mark.parametrize("end", ["return 0", "exit(0)"])
@pytest.mark.parametrize("wrong", ["xassert(0)", "*(volatile int *)8 = 1", "chan_out_word(0, 1)"])
def test_a_core_that_traps_beside_a_main_that_ends_well(tmp_path: Path, wrong: str, end: str) -> None:
    assert run_c(tmp_path, BESIDE.replace("WRONG", wrong).replace("END", end)) == TRAPPED


def test_a_code_of_main_is_kept_beside_a_core_that_traps(tmp_path: Path) -> None:
    assert run_c(tmp_path, BESIDE.replace("WRONG", "xassert(0)").replace("END", "return 9")) == 9


@pytest.mark.parametrize("lost", ["close(3 + each)", "if (each == 9) syscall(SYS_exit_group, 0)"])
def test_a_tile_that_is_lost_beside_one_that_ends_well(tmp_path: Path, lost: str) -> None:
    text = f"""
        #include <sys/syscall.h>
        #include <unistd.h>
        void main_tile0(chanend_t c) {{ delay_ticks(100); }}
        void main_tile1(chanend_t c) {{
            for (int each = 0; each < 90; each++) {{ {lost}; }}
            delay_ticks(1);
        }}
    """
    assert run_c(tmp_path, text, options=GNU) == TRAPPED


def test_cores_that_run_for_too_long_may_halt(tmp_path: Path) -> None:
    """As under checkers; other traps count nevertheless."""
    processes = {0: ProcessSettings(cpu_limit=0.05, cpu_limit_halts=True)}
    settings = RunSettings(processes, has_checkers=True)
    text = "for (volatile unsigned n = 0;; n++) {}"
    assert run_c(tmp_path, BESIDE.replace("WRONG", text).replace("END", "return 0"), settings) == 0
    assert run_c(tmp_path, BESIDE.replace("WRONG", "xassert(0)").replace("END", "return 0"), settings) == 1


# What commands make of it.


def source(folder: Path, text: str, name: str = "main.c") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def test_the_command_says_that_a_pipe_was_closed(tmp_path: Path) -> None:
    need_compiler()
    text = f"#include <unistd.h>\nint main(void) {{ {CLOSE}; return 0; }}"
    done = run_process([*AISRV, "firmware", "run", source(tmp_path, text)])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.rstrip().endswith(f"the program of tile 0 {CLOSED}; the core is halted")


@pytest.mark.parametrize(("commands", "code"), [("-ex run", 6), ("-ex 'print 1'", TRAPPED)])
def test_in_a_debugger_the_program_announces_its_end_too(tmp_path: Path, commands: str, code: int) -> None:
    gdb = need_compiler("gdb")
    words = ("--gdb", "0", "--debugger", f"{gdb} -q -nx --batch {commands} --args")
    text = "#include <stdlib.h>\nint main(void) { exit(6); }"
    assert run_process([*AISRV, "firmware", "run", *words, source(tmp_path, text)]).returncode == code


BOARD = """
[[engines]]
tile = 0
arena = "64K"

[[tasks]]
name = "task"
c = ["task.c"]
tile = 1
"""


@pytest.mark.parametrize(
    ("task", "told"),
    [
        (CLOSE, CLOSED),
        ("_Exit(0)", "ended with 0"),
        ("xassert(0)", "xassert(0) failed at task.c:1"),
    ],
)
@pytest.mark.parametrize("command", [("run", "--port", "0", "--until-eof"), ("exec", "--", "cat")], ids=str)
def test_a_command_on_a_board_ends_with_1_where_a_task_in_c_is_lost(
    tmp_path: Path, command: tuple[str, ...], task: str, told: str
) -> None:
    need_compiler()
    includes = "#include <stdlib.h>\n#include <unistd.h>\n#include <xcore/assert.h>\n"
    source(tmp_path, f"{includes}#line 1\nvoid task(void) {{ {task}; }}", "task.c")
    board = source(tmp_path, BOARD, "board.toml")
    words = [*AISRV, command[0], "--board", board, *command[1:]]
    with subprocess.Popen(words, stdin=PIPE, stdout=DEVNULL, stderr=PIPE, text=True) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        line = next(line for line in running.stderr if "the core is halted" in line)
        running.stdin.close()  # which ends it
        running.stderr.read()  # a Python of 3.13 ends with 120 where nobody reads its last words
    assert told in line
    assert running.returncode == 1


CHECK = """
import Pyxsim as px

def test_a_program():
    px.run_with_pyxsim("PROGRAM")
"""


@pytest.mark.parametrize(
    ("end", "outcome"),
    [
        ("return 0", "1 passed"),
        (CLOSE, "1 failed"),
        ("xassert(0)", "1 failed"),
        ("exit(1)", "1 passed"),  # as XMOS's own tests end
        ("return 1", "1 passed"),
        ("syscall(SYS_exit_group, 1)", "1 failed"),
        ("run_async(busy, NULL, NULL); delay_ticks(9)", "1 passed"),
    ],
)
def test_checkers_fail_where_their_program_is_lost(tmp_path: Path, end: str, outcome: str) -> None:
    text = f"""
        #include <sys/syscall.h>
        #include <unistd.h>
        long syscall(long number, ...);
        static void busy(void *unused) {{ for (volatile unsigned n = 0;; n++) {{}} }}
        int main(void) {{ (void)busy; {end}; return 0; }}
    """
    assert passed(tmp_path, text, CHECK) == outcome


HOLDS = {
    "a byte that says it is busy, and no more": "int main(void) { say(2); for (;;) pause(); }",
    "a byte that says it is to end, and no more": "int main(void) { say(3); for (;;) pause(); }",
    "busy without an end": "int main(void) { for (;;) say(2); }",
    "no main": "__attribute__((constructor)) static void first(void) { for (;;) pause(); } int main(void) {}",
}
SAYS = """
    #include <fcntl.h>
    #include <sys/stat.h>
    #include <unistd.h>
    static void say(char byte) {
        struct stat kind;
        for (int each = 3; each < 64; each++)
            if (!fstat(each, &kind) && S_ISFIFO(kind.st_mode) && (fcntl(each, F_GETFL) & 3) == O_WRONLY)
                write(each, &byte, 1);
    }
"""


async def stops(node: Node, *, task_status: trio.TaskStatus[None]) -> None:
    """Stop the chip after a while, as a device's user does."""
    task_status.started()
    await trio.sleep(0.2)
    node.stop()


@pytest.mark.parametrize("how", HOLDS)
def test_a_program_does_not_hold_a_live_device(tmp_path: Path, how: str) -> None:
    """What runs beside it goes on: here a task that stops the chip. One that is held never ends."""
    run_c(tmp_path, SAYS + HOLDS[how], RunSettings(is_live=True), outside=[stops], options=GNU)
