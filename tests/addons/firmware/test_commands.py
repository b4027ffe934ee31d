"""`aisrv firmware`: whole programs by their exit codes, what they print, and the headers."""

import os
import subprocess
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from aisrv.addons.firmware import commands
from aisrv.addons.firmware.board import C_BITS
from aisrv.addons.firmware.commands import FirmwareRun, headers, run
from aisrv.addons.firmware.word_size import word_size_options
from aisrv.cli.main import main
from aisrv.inference.process.sandbox_layers import landlock_version, why_no_seccomp
from aisrv.values.addons import AddOn, UserTasks
from tests.support.amounts import amount
from tests.support.benches.c_programs import kept_programs, need_32_bits, need_compiler
from tests.support.paths import ROOT
from tests.support.programs import AISRV, missing, run_process

__all__ = ["kept_programs"]
pytestmark = pytest.mark.usefixtures("kept_programs")


@pytest.fixture(autouse=True)
def _compiler() -> None:
    need_compiler()


def source(folder: Path, text: str, name: str = "main.c") -> str:
    (folder / name).write_text(text)
    return str(folder / name)


def firmware(*words: str) -> Result:
    return CliRunner().invoke(main, ["firmware", *words])


def test_the_exit_code_and_output_are_those_of_main(tmp_path: Path) -> None:
    main_c = source(tmp_path, '#include <stdio.h>\nint main(void) { puts("hello"); return VALUE; }')
    done = run_process([*AISRV, "firmware", "run", "--define", "VALUE=42", main_c])
    assert (done.returncode, done.stdout, done.stderr) == (42, "hello\n", "")


TUNES = UserTasks("", f"{__name__}:play", (".tune", ".c"))


def play(told: FirmwareRun) -> int:
    """Run files of a kind that another package brings."""
    click.echo([path.name for path in (*told.files, *told.tile1)])
    return 7 + told.run.seed


@pytest.mark.parametrize(
    ("kind", "files", "outcome"),
    [
        (TUNES, ["a.tune"], (8, "['a.tune']\n")),
        (TUNES, ["a.tune", "main.c"], (8, "['a.tune', 'main.c']\n")),
        (TUNES, ["main.c", "--tile1", "a.tune"], (8, "['main.c', 'a.tune']\n")),
        (TUNES, ["main.c"], (3, "C\n")),
        (TUNES._replace(suffixes=(".tune",)), ["a.tune"], (8, "['a.tune']\n")),
        (TUNES._replace(runs=""), ["main.c"], (3, "C\n")),
    ],
)
def test_files_are_run_by_the_first_kind_that_takes_them_all(
    kind: UserTasks,
    files: list[str],
    outcome: tuple[int, str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(commands, "others", lambda: (AddOn(task_kinds={"tune": kind}),))
    monkeypatch.chdir(tmp_path)
    source(tmp_path, '#include <stdio.h>\nint main(void) { puts("C"); return 3; }')
    source(tmp_path, "c d e", "a.tune")
    done = firmware("run", "--seed", "1", *files)
    assert (done.exit_code, done.stdout + capfd.readouterr().out) == outcome


def test_files_of_two_kinds_are_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kind = TUNES._replace(suffixes=(".tune",))
    monkeypatch.setattr(commands, "others", lambda: (AddOn(task_kinds={"tune": kind}),))
    done = firmware("run", source(tmp_path, ""), source(tmp_path, "", "a.tune"))
    assert done.exit_code == 2
    assert "no program is made of .c and .tune together" in done.stderr


def test_a_trap_is_told_and_ends_with_1(tmp_path: Path) -> None:
    need_compiler("addr2line")
    main_c = source(tmp_path, "#include <xcore/assert.h>\nint main(void) { xassert(0); }")
    done = run_process([*AISRV, "firmware", "run", main_c])
    assert (done.returncode, done.stdout) == (1, "")
    place = "xassert(0) failed at main.c:2, in main at main.c:2"
    trapped = f"tile 0 core 0 (main) trapped at tick 0: ECALL (8): {place}; the core is halted"
    assert done.stderr.rstrip().endswith(trapped)
    stopped = firmware("run", "--on-trap", "stop", main_c)
    assert stopped.exit_code == 1
    assert stopped.stderr == f"Error: ECALL (8): {place}\ntile 0 core 0 (main) trapped at tick 0\n"


def test_what_does_not_compile_ends_with_2(tmp_path: Path) -> None:
    refused = firmware("run", source(tmp_path, "int main(void) { return nothing; }"))
    assert refused.exit_code == 2
    assert "main.c:1:25: error: " in refused.stderr
    assert "undeclared" in refused.stderr


def test_cores_that_wait_for_ever_end_with_1(tmp_path: Path) -> None:
    text = "#include <xcore/channel.h>\nint main(void) { channel_t c = chan_alloc(); chan_in_word(c.end_a); }"
    done = firmware("run", source(tmp_path, text))
    assert done.exit_code == 1
    assert done.stderr.startswith(
        "Error: no core can run again:\n  tile 0 core 0 (main): chan_in_word on chanend"
    )


def test_tile_1_has_a_program_of_its_own(tmp_path: Path) -> None:
    tile0 = (
        "#include <stdlib.h>\n#include <xcore/channel.h>\n"
        "void main_tile0(chanend_t c) { exit((int)chan_in_word(c)); }"
    )
    tile1 = "#include <xcore/channel.h>\nvoid main_tile1(chanend_t c) { chan_out_word(c, 6); }"
    names = source(tmp_path, tile0, "zero.c"), source(tmp_path, tile1, "one.c")
    assert run_process([*AISRV, "firmware", "run", names[0], "--tile1", names[1]]).returncode == 6


def test_folders_of_headers_and_options_reach_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "api").mkdir()
    source(tmp_path / "api", "#define CODE 3\n", "code.h")
    main_c = source(tmp_path, '#include "code.h"\nint main(void) { return CODE; }')
    assert firmware("run", "-I", str(tmp_path / "api"), "--cflags", "-O2 -Wall", main_c).exit_code == 3


LINES = """
    #include <stdio.h>
    #include <xcore/channel.h>
    #include <xcore/parallel.h>
    DECLARE_JOB(square, (chanend_t, unsigned));
    void square(chanend_t c, unsigned count) {
        printf("begun");
        while (count--) { unsigned n = chan_in_word(c); chan_out_word(c, n * n); printf(" %u", n); }
        printf("\\n\\nthe last");
    }
    void ask(chanend_t c) {
        for (unsigned n = 1; n <= 2; n++) { chan_out_word(c, n); printf("%u\\n", (unsigned)chan_in_word(c)); }
        printf("core %u", get_logical_core_id());
    }
    int main(void) {
        channel_t c = chan_alloc();
        PAR_JOBS(PJOB(ask, (c.end_a)), PJOB(square, (c.end_b, 2)));
        printf(", time %s", get_reference_time() ? "passed" : "stood");
        return 3;
    }
"""


def test_lines_begin_with_tile_and_core(tmp_path: Path) -> None:
    done = run_process([*AISRV, "firmware", "run", "--prefix", source(tmp_path, LINES)])
    assert done.returncode == 3
    assert sorted(done.stdout.splitlines()) == [
        "tile 0 core 0: 1",
        "tile 0 core 0: 4",
        "tile 0 core 0: core 0, time stood",
        "tile 0 core 1:",
        "tile 0 core 1: begun 1 2",
        "tile 0 core 1: the last",
    ]


def test_a_long_line_is_cut_and_each_part_has_its_core(tmp_path: Path) -> None:
    text = (
        "#include <stdio.h>\nint main(void) { for (int i = 0; i < 513; i++) putchar(97 + i % 26); return 0; }"
    )
    done = run_process([*AISRV, "firmware", "run", "--prefix", source(tmp_path, text)])
    letters = "".join(chr(97 + i % 26) for i in range(513))
    assert done.stdout == f"tile 0 core 0: {letters[:512]}\ntile 0 core 0: {letters[512:]}\n"


def test_what_was_printed_before_a_trap_is_not_lost(tmp_path: Path) -> None:
    text = '#include <stdio.h>\nint main(void) { printf("so far"); *(volatile int *)0 = 1; }'
    done = run_process([*AISRV, "firmware", "run", "--prefix", source(tmp_path, text)])
    assert done.stdout == "tile 0 core 0: so far\n"


def test_a_trap_of_an_output_names_its_line_without_posts(tmp_path: Path) -> None:
    need_compiler("addr2line")
    text = "#include <xcore/port.h>\nint main(void) {\n port_out(XS1_PORT_1A, 1);\n port_peek(XS1_PORT_1A); }"
    main_c = source(tmp_path, text)
    stopped = firmware("run", "--no-post", "--on-trap", "stop", main_c)
    assert (stopped.exit_code, stopped.stderr.splitlines()[0][-28:]) == (1, "enabled, in main at main.c:3")
    posted = firmware("run", "--on-trap", "stop", main_c)
    assert "enabled, at or before in main at main.c:4\n" in posted.stderr


def test_in_device_time_calls_take_time(tmp_path: Path) -> None:
    done = run_process([*AISRV, "firmware", "run", "--device-time", "--prefix", source(tmp_path, LINES)])
    assert "tile 0 core 0: core 0, time passed\n" in done.stdout


@pytest.mark.in_full
@pytest.mark.parametrize("time", [(), ("--device-time",)])
def test_a_run_is_traced_and_each_run_is_the_same(tmp_path: Path, time: tuple[str, ...]) -> None:
    main_c = source(tmp_path, LINES)
    traces = []
    for number in range(amount(20, every_day=3)):
        trace = tmp_path / f"{number}.pftrace"
        assert firmware("run", *time, "--trace", str(trace), "--seed", "5", main_c).exit_code == 3
        traces.append(trace.read_bytes())
    assert b"tile 0 core 1 (square)" in traces[0]
    assert set(traces) == {traces[0]}


def test_a_sanitizer_finds_an_overflow(tmp_path: Path) -> None:
    text = (
        "#include <stdlib.h>\nint main(void) {\n  char *volatile p = malloc(4);\n  p[4] = 1;\n  return 0;\n}"
    )
    done = run_process([*AISRV, "firmware", "run", "--sanitize", "address", source(tmp_path, text)])
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "main.c:4" in done.stderr


@pytest.mark.long("it compiles the runtime again; a sanitizer of 64 bits runs every day")
def test_a_program_of_32_bits_has_a_sanitizer_and_pointers_in_words(tmp_path: Path) -> None:
    need_32_bits(need_compiler())
    text = """
#include <stdlib.h>
#include <xcore/channel.h>
int main(void) {
    channel_t c = chan_alloc();
    int *volatile p = malloc(4);
    *p = 1;
    chanend_out_word(c.end_a, (uint32_t)p);
    return *((int *)chanend_in_word(c.end_b) + *p);
}
"""
    words = ("--bits", "32", "--sanitize", "address")
    done = run_process([*AISRV, "firmware", "run", *words, source(tmp_path, text)])
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr
    assert "main.c:9" in done.stderr


def test_a_program_with_a_sanitizer_keeps_the_code_of_exit(tmp_path: Path) -> None:
    """Nothing looks for leaks, which another process would have to trace it for."""
    text = "#include <stdlib.h>\nint main(void) { exit(malloc(4) != NULL ? 3 : 4); }"
    assert (
        run_process([*AISRV, "firmware", "run", "--sanitize", "address", source(tmp_path, text)]).returncode
        == 3
    )


COPIES = """
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
int main(void) {
    FILE *from = fopen(getenv("AISRV_FROM"), "r"), *to = fopen(getenv("AISRV_TO"), "w");
    int has_written = to != NULL && fputs("x", to) >= 0, has_network = socket(AF_INET, SOCK_STREAM, 0) >= 0;
    return (from != NULL) + 2 * has_written + 4 * has_network;
}
"""
READ, WROTE, NETWORK = 1, 2, 4


@pytest.mark.parametrize(
    ("words", "code"),
    [
        ((), 0),
        (("--allow-read", "ELSEWHERE"), READ),
        (("--allow-write", "ELSEWHERE"), READ | WROTE),
        (("--allow-network",), NETWORK),
        (("--allow-read", ".", "--allow-read", "ELSEWHERE", "--allow-network"), READ | NETWORK),
    ],
    ids=lambda given: " ".join(given) if isinstance(given, tuple) else "",
)
def test_a_program_has_the_folders_and_the_network_that_it_is_given(
    tmp_path: Path, words: tuple[str, ...], code: int
) -> None:
    if landlock_version() < 1 or why_no_seccomp():
        missing("this machine has no Landlock or no seccomp")
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    for folder in (here, elsewhere):
        folder.mkdir()
    file = source(elsewhere, "what is read", "file")
    variables = {**os.environ, "AISRV_FROM": file, "AISRV_TO": str(elsewhere / "new")}
    given = [str(elsewhere) if word == "ELSEWHERE" else word for word in words]
    done = run_process([*AISRV, "firmware", "run", *given, source(here, COPIES)], cwd=here, env=variables)
    assert (done.returncode, done.stderr) == (code, "")


@pytest.mark.parametrize(
    ("words", "to", "code"),
    [
        ((), "new", READ | WROTE),
        (("--allow-write", "out"), "new", READ),
        (("--allow-read", "out", "--allow-write", "out"), "out/new", WROTE),
    ],
)
def test_without_options_a_program_has_the_current_folder(
    tmp_path: Path, words: tuple[str, ...], to: str, code: int
) -> None:
    """An option takes its place."""
    if landlock_version() < 1:
        missing("this machine has no Landlock")
    (tmp_path / "out").mkdir()
    source(tmp_path, "what is read", "file")
    variables = {**os.environ, "AISRV_FROM": "file", "AISRV_TO": to}
    done = run_process(
        [*AISRV, "firmware", "run", *words, source(tmp_path, COPIES)], cwd=tmp_path, env=variables
    )
    assert (done.returncode, done.stderr) == (code, "")


def test_a_debugger_says_what_does_not_hold(tmp_path: Path) -> None:
    main_c = source(tmp_path, "int main(void) { return 0; }")
    done = run_process([*AISRV, "firmware", "run", "--gdb", "0", "--debugger", "env LC_ALL=C", main_c])
    told = "tile 0: env traces its program and reads all files: the layers against that are off"
    assert done.returncode == 0
    assert done.stderr.rstrip().endswith(told)


def test_a_debugger_stops_in_a_task_and_shows_its_arguments(tmp_path: Path) -> None:
    gdb = need_compiler("gdb")
    text = """
#include <xcore/channel.h>
#include <xcore/parallel.h>
DECLARE_JOB(job, (chanend_t, int));
void job(chanend_t c, int rate) { chan_out_word(c, rate); }
void other(chanend_t c) { chan_in_word(c); }
int main(void) {
    channel_t c = chan_alloc();
    PAR_JOBS(PJOB(other, (c.end_a)), PJOB(job, (c.end_b, 77)));
    return 4;
}
"""
    commands = "-ex 'break job' -ex run -ex bt -ex continue"
    words = ("--gdb", "0", "--debugger", f"{gdb} -q -nx --batch {commands} --args")
    done = run_process([*AISRV, "firmware", "run", *words, source(tmp_path, text)])
    assert "rate=77" in done.stdout
    assert done.returncode == 4


@pytest.mark.parametrize("bits", [64, 32])
def test_the_headers_compile_elsewhere(tmp_path: Path, bits: int) -> None:
    size = f'_Static_assert(8 * sizeof(void *) == {bits}, "");\n'
    main_c = source(
        tmp_path, f"#include <xcore/channel.h>\n{size}uint32_t f(chanend_t c) {{ return chan_in_word(c); }}"
    )
    if bits == 32:
        need_32_bits(need_compiler())
    (folder,) = firmware("headers").stdout.splitlines()
    assert (Path(folder) / "xcore" / "channel.h").is_file()
    options = firmware("headers", "--cflags", "--bits", str(bits)).stdout.split()
    done = subprocess.run(
        ["gcc", *options, "-fsyntax-only", main_c], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


CONFIG = """<xSCOPEconfig ioMode="basic" enabled="true">
  <Probe name="Bytes from host" type="CONTINUOUS" datatype="UINT" units="bytes" enabled="true"/>
</xSCOPEconfig>"""


def test_xscope_records_in_a_file_what_probes_of_a_config_file_get(tmp_path: Path) -> None:
    text = """
        #include <xscope.h>
        int main(void) {
            chanend_t c = chanend_alloc(); char buf[256]; int n;
            xscope_connect_data_from_host(c);
            xscope_data_from_host(c, buf, &n);
            xscope_int(BYTES_FROM_HOST, n);
            return 0;
        }"""
    main_c = source(tmp_path, text)
    config, data = source(tmp_path, CONFIG, "config.xscope"), source(tmp_path, "hello", "data")
    for name, line in (
        (
            "o.jsonl",
            '{"tick": 0, "tile": 0, "core": 0, "probe": "Bytes from host", "event": "value", "value": 5}',
        ),
        ("o.vcd", "$var integer 64 ! Bytes_from_host $end"),
    ):
        out = tmp_path / name
        done = firmware(
            *("run", "--xscope-config", config, "--xscope", str(out), "--xscope-in", data, main_c)
        )
        assert (done.exit_code, done.stderr) == (0, "")
        assert line in out.read_text().splitlines()


def test_a_config_file_of_xscope_that_is_none_is_told(tmp_path: Path) -> None:
    main_c = source(tmp_path, "int main(void) { return 0; }")
    config = source(tmp_path, "<xSCOPEconfig>\n<Probe/></xSCOPEconfig>", "config.xscope")
    done = firmware("run", "--xscope-config", config, main_c)
    assert (done.exit_code, done.stderr) == (1, f"Error: {config}:2: probe: name must be a name\n")


def test_a_function_of_python_stands_for_what_is_wired_to_the_pins() -> None:
    """The example, as the guide shows it: the page's words are what it prints."""
    page = (ROOT / "docs/guides/firmware.md").read_text()
    session = page.partition("$ aisrv firmware run examples/firmware/blink.c ")[2].partition("```")[0]
    options, _, shown = session.partition("\n")
    done = run_process([*AISRV, "firmware", "run", "examples/firmware/blink.c", *options.split()], cwd=ROOT)
    assert (done.returncode, done.stdout, done.stderr) == (0, shown, "")


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("blink_pins:press", "has no function 'press'"),
        ("blink_pins", "'blink_pins' is not MODULE:FUNCTION"),
        ("blink_none:lamp", "there is no module 'blink_none'"),
    ],
)
def test_a_function_on_pins_that_is_not_there(name: str, reason: str) -> None:
    done = run_process([*AISRV, "firmware", "run", "examples/firmware/blink.c", "--pins", name], cwd=ROOT)
    assert done.returncode == 2
    assert reason in done.stderr


def test_pins_are_recorded_from_the_start(tmp_path: Path) -> None:
    text = (
        "#include <xcore/port.h>\n#include <xcore/hwtimer.h>\n"
        "int main(void) { port_enable(XS1_PORT_1A); port_out(XS1_PORT_1A, 1); port_sync(XS1_PORT_1A);"
        " hwtimer_t t = hwtimer_alloc(); hwtimer_delay(t, 100000); port_out(XS1_PORT_1A, 0);"
        " port_sync(XS1_PORT_1A); hwtimer_free(t); return 0; }"
    )
    path = tmp_path / "pins.vcd"
    done = run_process([*AISRV, "firmware", "run", "--pins-vcd", path, source(tmp_path, text)], check=True)
    assert done.stderr == ""
    code = path.read_text().partition(" X0D00 ")[0].rpartition(" ")[2]
    times, levels, now = [], [], 0
    for word in path.read_text().partition("$dumpvars")[2].split():
        if word.startswith("#"):
            now = int(word[1:])
        elif word in (f"0{code}", f"1{code}"):
            times.append(now)
            levels.append(word[0])
    assert levels == ["1", "0"]
    assert 1_000_000 <= times[1] - times[0] <= 1_000_100  # a millisecond, and a few ticks of the verbs


@pytest.mark.parametrize("command", [run, headers], ids=lambda command: str(command.name))
def test_bits_are_those_of_boards_and_have_options_of_the_compiler(command: click.Command) -> None:
    bits = next(each for each in command.params if each.name == "bits")
    assert isinstance(bits.type, click.Choice)
    assert bits.type.choices == tuple(map(str, C_BITS))
    assert ["-m32" in word_size_options(each) for each in C_BITS] == [False, True]
