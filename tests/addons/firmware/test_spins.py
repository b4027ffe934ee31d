"""Cores in C that wait in a loop on memory, which a callback or another core changes."""

from pathlib import Path

import pytest

from aisrv.addons.firmware.tile_process import ProcessSettings
from aisrv.addons.firmware.whole_program import TRAPPED, RunSettings
from aisrv.xcore.traps import Deadlock
from tests.support.benches.c_programs import BITS, HEADERS, need_32_bits, need_compiler, run_c
from tests.support.programs import AISRV, run_process

HEAD = """
    #include <xcore/interrupt.h>
    #include <xcore/interrupt_wrappers.h>
    static volatile unsigned count;
    static hwtimer_t timer;
    static uint32_t time;
    DEFINE_INTERRUPT_CALLBACK(group, on_time, data) {
        hwtimer_get_time(timer);
        time += 100;
        hwtimer_change_trigger_time(timer, time);
        count++;
    }
    static void interrupted(void) {
        timer = hwtimer_alloc();
        time = get_reference_time() + 99;
        hwtimer_setup_interrupt_callback(timer, time, NULL, INTERRUPT_CALLBACK(on_time));
        triggerable_enable_trigger(timer);
        interrupt_unmask_all();
    }
"""
WAITS = """
    int main(void) {
        interrupted();
        while (count < 20);
        interrupt_mask_all();
        printf("%u at %u\\n", count, (unsigned)get_reference_time());
        return 0;
    }
"""


def _output(folder: Path, capfd: pytest.CaptureFixture[str], text: str, bits: int = 64) -> str:
    assert run_c(folder, HEAD + text, bits=bits) == 0
    return capfd.readouterr().out


def _halting(seconds: float) -> RunSettings:
    """Settings by which a core that computes for long is halted."""
    return RunSettings({0: ProcessSettings(cpu_limit=seconds, cpu_limit_halts=True)})


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize(
    "compiler", ["gcc", pytest.param("clang", marks=pytest.mark.long("clang as well as gcc"))]
)
def test_callbacks_run_while_their_core_waits_for_what_they_write(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, bits: int
) -> None:
    assert run_c(tmp_path, HEAD + WAITS, compiler=compiler, bits=bits) == 0
    assert capfd.readouterr().out == "20 at 2000\n"


def test_callbacks_in_device_time_run_while_their_core_waits_for_what_they_write(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_c(tmp_path, HEAD + WAITS, RunSettings(takes_chip_time=True)) == 0
    # The last one is at 2001. Its wrapper takes 110 clocks, the timer and the mask 5 each.
    assert capfd.readouterr().out == "20 at 2021\n"


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("level", ["-O3", pytest.param("-O0", marks=pytest.mark.long("-Og is as simple"))])
def test_loops_of_any_code(tmp_path: Path, capfd: pytest.CaptureFixture[str], level: str, bits: int) -> None:
    assert run_c(tmp_path, HEAD + WAITS, options=[level], bits=bits) == 0
    assert capfd.readouterr().out == "20 at 2000\n"


@pytest.mark.parametrize("bits", BITS)
def test_loops_of_code_with_a_sanitizer(tmp_path: Path, bits: int) -> None:
    source = tmp_path / "main.c"
    source.write_text(HEADERS + HEAD + WAITS)
    compiler = need_compiler()
    if bits == 32:
        need_32_bits(compiler)
    words = ("--bits", str(bits), "--sanitize", "address")
    done = run_process([*AISRV, "firmware", "run", *words, str(source)])
    assert (done.stdout, done.stderr, done.returncode) == ("20 at 2000\n", "", 0)


def test_another_core_changes_what_cores_wait_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    static volatile int done;
    DECLARE_JOB(waits, (int));
    void waits(int number) {
        while (!done);
        printf("%d at %u\\n", number, (unsigned)get_reference_time());
    }
    DECLARE_JOB(works, (void));
    void works(void) {
        for (int i = 0; i < 30; i++) delay_ticks(9);
        done = 1;
    }
    int main(void) {
        PAR_JOBS(PJOB(works, ()), PJOB(waits, (1)), PJOB(waits, (2)));
        return 0;
    }
    """,
    )
    assert sorted(printed.splitlines()) == ["1 at 300", "2 at 300"]


def test_two_cores_take_turns_by_memory_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    static volatile unsigned turn, sum;
    DECLARE_JOB(plays, (unsigned));
    void plays(unsigned me) {
        for (unsigned i = 0; i < 20; i++) {
            while (turn % 2 != me);
            sum = sum * 3 + me;
            turn++;
        }
    }
    int main(void) {
        PAR_JOBS(PJOB(plays, (0)), PJOB(plays, (1)));
        printf("%u turns, %u\\n", turn, sum);
        return 0;
    }
    """,
    )
    expected = 0
    for turn in range(40):
        expected = (expected * 3 + turn % 2) & 0xFFFFFFFF
    assert printed == f"40 turns, {expected}\n"


@pytest.mark.parametrize("bits", BITS)
def test_a_wait_keeps_all_registers(tmp_path: Path, capfd: pytest.CaptureFixture[str], bits: int) -> None:
    """Numbers that lie in registers across the loop, as it calls nothing."""
    names = [f"x{i}" for i in range(14)]
    floats = [f"y{i}" for i in range(15)]
    lines = [f"    unsigned long {name} = seed * {i + 3}u ^ {i}u;" for i, name in enumerate(names)]
    lines += [f"    double {name} = seed * {i}.5;" for i, name in enumerate(floats)]
    ties = "".join(f'    asm volatile("" : "+r"({name}));\n' for name in names)
    ties += "".join(f'    asm volatile("" : "+x"({name}));\n' for name in floats)
    body = "\n".join(lines)
    text = f"""
    __attribute__((optimize("O2"))) static void computes(unsigned seed, unsigned until) {{
{body}
{ties}    while (count < until);
{ties}    printf("%lu %.1f\\n", {" + ".join(names)}, {" + ".join(floats)});
    }}
    int main(void) {{
        interrupted();
        for (unsigned i = 1; i < 4; i++) computes(i, i * 2);
        interrupt_mask_all();
        return 0;
    }}
    """
    sums = [sum(seed * (i + 3) ^ i for i in range(14)) for seed in (1, 2, 3)]
    values = [sum(seed * (i + 0.5) for i in range(15)) for seed in (1, 2, 3)]
    printed = _output(tmp_path, capfd, text, bits)
    assert printed == "".join(f"{total} {value:.1f}\n" for total, value in zip(sums, values, strict=True))


def test_what_computes_for_long_is_not_interrupted(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    int main(void) {
        volatile unsigned left = 40000000, value = 1;
        interrupted();
        while (left && !count) left--;
        interrupt_mask_all();
        printf("%u left, %u at %u\\n", left, count, (unsigned)get_reference_time());
        return 0;
    }
    """,
    )
    assert printed == "0 left, 0 at 0\n"


def test_a_loop_that_counts_waits_for_nobody(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = """
    int main(void) {
        volatile unsigned long turns = 0;
        interrupted();
        while (!count) turns++;
        return 0;
    }
    """
    assert run_c(tmp_path, HEAD + text, _halting(0.1)) == TRAPPED
    assert "no verb within the limit of CPU time, in main at program.c:23; the core is halted" in caplog.text


def test_nothing_interrupts_a_loop_while_masked(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = """
    int main(void) {
        interrupted();
        interrupt_mask_all();
        while (!count);
        return 0;
    }
    """
    assert run_c(tmp_path, HEAD + text, _halting(0.1)) == TRAPPED
    assert "no verb within the limit of CPU time, in main at program.c:23; the core is halted" in caplog.text


def test_a_loop_that_nothing_will_end_is_named(tmp_path: Path) -> None:
    text = """
    int main(void) {
        interrupted();
        triggerable_disable_trigger(timer);
        while (!count);
        return 0;
    }
    """
    named = r"tile 0 core 0 \(main\): spin on memory \(until it changes, in main at program.c:23\)"
    with pytest.raises(Deadlock, match=named):
        run_c(tmp_path, HEAD + text)


def test_a_callback_runs_to_its_end_before_its_core_looks(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    static volatile unsigned begun, ended;
    DEFINE_INTERRUPT_CALLBACK(group, waits_itself, data) {
        begun = 1;
        delay_ticks(500);
        hwtimer_clear_trigger_time(timer);
        triggerable_disable_trigger(timer);
        ended = 1;
    }
    int main(void) {
        timer = hwtimer_alloc();
        hwtimer_setup_interrupt_callback(timer, 99, NULL, INTERRUPT_CALLBACK(waits_itself));
        triggerable_enable_trigger(timer);
        interrupt_unmask_all();
        while (!begun);
        printf("%u %u at %u\\n", begun, ended, (unsigned)get_reference_time());
        return 0;
    }
    """,
    )
    assert printed == "1 1 at 601\n"


def test_loops_with_inline_assembly_of_two_cores(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Both write the same memory at each turn, before they read it."""
    printed = _output(
        tmp_path,
        capfd,
        """
    static volatile unsigned flag;
    static unsigned reversed(unsigned word) {
        asm volatile("bitrev %0, %1" : "=r"(word) : "r"(word));
        return word;
    }
    DECLARE_JOB(waits, (unsigned));
    void waits(unsigned bit) {
        while (!(reversed(flag) & bit));
        printf("%x\\n", bit);
    }
    DECLARE_JOB(sets, (void));
    void sets(void) {
        delay_ticks(100);
        flag = 1;
        delay_ticks(100);
        flag = 3;
    }
    int main(void) {
        PAR_JOBS(PJOB(sets, ()), PJOB(waits, (1u << 30)), PJOB(waits, (1u << 31)));
        printf("at %u\\n", (unsigned)get_reference_time());
        return 0;
    }
    """,
    )
    assert printed == "80000000\n40000000\nat 202\n"


def test_a_loop_waits_in_a_debugger_too(tmp_path: Path) -> None:
    gdb = need_compiler("gdb")
    source = tmp_path / "main.c"
    source.write_text(HEADERS + HEAD + WAITS.replace("< 20", "< 3"))
    commands = "-ex 'break on_time' -ex run -ex delete -ex continue"
    words = ("--gdb", "0", "--debugger", f"{gdb} -q -nx --batch {commands} --args")
    done = run_process([*AISRV, "firmware", "run", *words, str(source)])
    assert "3 at 300\n" in done.stdout
    assert done.returncode == 0
