"""The macros of jobs and selects in C and C++, with both compilers."""

from collections.abc import Sequence
from pathlib import Path
from textwrap import dedent, indent

import pytest

from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from tests.support.benches.c_programs import CLANG_TOO, HEADERS, need_32_bits, need_compiler

TYPES = ("int", "uint8_t", "const char *", "double", "uint64_t", "const unsigned *", "int16_t", "float")
VALUES = (
    ("-5", "250", '"text"', "0.5", "1ull << 40", "numbers", "-300", "1.25f"),
    ("7", "1", '"more"', "-2.0", "3", "numbers + 1", "300", "-8.0f"),
)
"""Of the arguments of a job as the first one, and as another."""
PRINTED = (
    ("-5", "250", "text", "0.500000", "1099511627776", "11", "-300", "1.250000"),
    ("7", "1", "more", "-2.000000", "3", "22", "300", "-8.000000"),
)
FORMATS = ("%d", "%d", "%s", "%f", "%llu", "%u", "%d", "%f")
LANGUAGES = [
    *[("gcc", suffix, 64) for suffix in ("c", "cc")],
    *[pytest.param("clang", suffix, 64, marks=CLANG_TOO) for suffix in ("c", "cc")],
    *[
        pytest.param(compiler, suffix, 32, marks=pytest.mark.long)
        for suffix in ("c", "cc")
        for compiler in ("gcc", "clang")
    ],
]
"""Compilers, the suffix by which they take a source as C or C++, and the bits of pointers."""


def run(folder: Path, text: str, compiler: str, suffix: str, bits: int) -> int:
    if suffix == "cc":
        need_compiler("g++")  # a gcc without it has no C++, and clang none of its headers
    source = folder / f"program.{suffix}"
    source.write_text(f"{HEADERS}\n{dedent(text)}")
    path = need_compiler(compiler)
    if bits == 32:
        need_32_bits(path, is_cpp=suffix == "cc")
    program = build(Program((Unit((source,), options=("-Werror",)),), bits=bits), path)
    return run_whole_programs({0: program}, RunSettings())


def with_arguments(count: int) -> str:
    """Write a job with so many arguments, which prints them."""
    types = ", ".join(TYPES[:count]) or "void"
    parameters = ", ".join(f"{kind} a{place}" for place, kind in enumerate(TYPES[:count])) or "void"
    shown = [f"(unsigned long long)a{place}" if place == 4 else f"a{place}" for place in range(count)]
    if count > 5:
        shown[5] = "*a5"
    formats = " ".join(FORMATS[:count])
    return f"""
        DECLARE_JOB(job{count}, ({types}));
        void job{count}({parameters}) {{ printf({", ".join((f'"{count}: {formats}"', *shown))}); puts(""); }}
    """


def job(count: int, values: Sequence[str]) -> str:
    return f"PJOB(job{count}, ({', '.join(values[:count])}))"


@pytest.mark.parametrize(("compiler", "suffix", "bits"), LANGUAGES)
def test_jobs_have_up_to_eight_arguments_of_any_type(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, suffix: str, bits: int
) -> None:
    jobs = "".join(with_arguments(count) for count in range(9))
    calls = [f"PAR_JOBS({', '.join(job(count, values) for values in VALUES)});" for count in range(9)]
    main = "int main(void) {\n" + indent("\n".join(calls), "    ") + "\n    return 0;\n}\n"
    numbers = "static const unsigned numbers[] = {11, 22};\n"
    assert run(tmp_path, numbers + dedent(jobs) + main, compiler, suffix, bits) == 0
    lines = [f"{count}: {' '.join(printed[:count])}" for count in range(9) for printed in PRINTED]
    assert sorted(capfd.readouterr().out.splitlines()) == sorted(lines)


NESTED = """
    static int count;
    DECLARE_JOB(leaf, (chanend_t, int));
    void leaf(chanend_t c, int value) { count++; chan_out_word(c, value); }
    DECLARE_JOB(branch, (chanend_t, chanend_t));
    void branch(chanend_t a, chanend_t b) { PAR_JOBS(PJOB(leaf, (a, 1)), PJOB(leaf, (b, 20))); }
    static unsigned inner(chanend_t c, unsigned most) {
        unsigned sum = 0, defaults = 0;
        SELECT_RES_ORDERED(CASE_GUARD_THEN(c, sum < most, word), DEFAULT_NGUARD_THEN(sum < most, done)) {
        word: sum += chan_in_word(c); continue;
        done: defaults++; break;
        }
        return sum + 1000 * defaults;
    }
    static void listen(chanend_t a, chanend_t b, chanend_t c, chanend_t d) {
        unsigned sum = 0;
        int left = 4;
        SELECT_RES(CASE_THEN(a, on_a), CASE_NGUARD_THEN(b, left == 0, on_b),
                   CASE_GUARD_THEN(c, left > 0, on_c), CASE_THEN(d, on_d)) {
        on_a: sum += chan_in_word(a); if (--left) SELECT_CONTINUE_RESET; break;
        on_b: sum += inner(b, 20); if (--left) SELECT_CONTINUE_NO_RESET; break;
        on_c: sum += chan_in_word(c); if (--left) continue; break;
        on_d: sum += inner(d, 20); if (--left) continue; break;
        }
        printf("%u of %d\\n", sum, count);
    }
    DECLARE_JOB(both, (chanend_t, chanend_t, chanend_t, chanend_t));
    void both(chanend_t a, chanend_t b, chanend_t c, chanend_t d) {
        PAR_JOBS(PJOB(branch, (a, b)), PJOB(branch, (c, d)));
    }
    int main(void) {
        channel_t a = chan_alloc(), b = chan_alloc(), c = chan_alloc(), d = chan_alloc();
        PAR_JOBS(PJOB(listen, (a.end_a, b.end_a, c.end_a, d.end_a)),
                 PJOB(both, (a.end_b, b.end_b, c.end_b, d.end_b)));
        return count;
    }
"""


@pytest.mark.parametrize(("compiler", "suffix", "bits"), LANGUAGES)
def test_jobs_and_selects_within_each_other(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, suffix: str, bits: int
) -> None:
    assert run(tmp_path, NESTED, compiler, suffix, bits) == 4
    assert capfd.readouterr().out == "2042 of 4\n"


@pytest.mark.parametrize(("compiler", "suffix", "bits"), LANGUAGES)
def test_eight_jobs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, suffix: str, bits: int
) -> None:
    jobs = ", ".join(f"PJOB(adds, ({1 << place}))" for place in range(8))
    functions = ", ".join(f"PFUNC(adds_to, sums + {place})" for place in range(8))
    text = f"""
    static int sum, sums[8];
    DECLARE_JOB(adds, (int));
    void adds(int n) {{ delay_ticks(5); sum += n; }}
    static void adds_to(void *place) {{ *(int *)place += 1; }}
    int main(void) {{
        PAR_JOBS({jobs});
        PAR_FUNCS({functions});
        for (int i = 0; i < 8; i++) printf("%d", sums[i]);
        printf(" %d\\n", sum);
        return 0;
    }}
    """
    assert run(tmp_path, text, compiler, suffix, bits) == 0
    assert capfd.readouterr().out == "11111111 255\n"
