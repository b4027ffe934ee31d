"""XS3 instructions on resources in inline assembly: each, with operands of all widths, keeps what lives."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

import pytest

from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.host_assembler import INSTRUCTIONS
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from tests.addons.firmware.test_host_assembler import ARITHMETIC, FLOATS, INTEGERS, LEVELS, SHOW, TYPES
from tests.support.amounts import is_in_full
from tests.support.benches.c_programs import CLANG_TOO, need_compiler


class _OnResources:
    """An instruction on a resource, or on the core's state, while as much is alive as registers hold."""

    def __init__(
        self, template: str, before: str = "", after: str = "", expected: Sequence[int] = ()
    ) -> None:
        """`value` and `o` have the type T, of the case's width; what `after` prints is `expected`."""
        self.template, self.before, self.after, self.expected = template, before, after, expected

    @property
    def names(self) -> set[str]:
        """The instructions that it has."""
        return {part.split()[0] for part in self.template.partition('"')[0].split(";")}

    def c(self, number: int, width: int) -> str:
        """Write it as a function of C."""
        kind = TYPES[width]
        lives, floats = range(INTEGERS), range(FLOATS)
        keep = [f'__asm__ volatile("" : "+r"(v{i}));' for i in lives]
        keep += [f'__asm__ volatile("" : "+x"(d{i}));' for i in floats]
        text, _, operands = self.template.partition('"')
        goto, labels = ("goto", " : came") if "waiteu" in text else ("", "")
        lines = [
            f"__attribute__((noinline)) static void on_{number}(const uint64_t *in, const double *real) {{",
            self.before,
            *(f"uint64_t v{i} = in[{i}] * 3;" for i in lives),
            *(f"double d{i} = real[{i}] * 2;" for i in floats),
            "T o = 0; T value = (T)in[0];",
            *keep,
            f'asm volatile {goto}("{text}" {operands or ": : : "}{labels});',
            "came: __attribute__((unused));" if labels else "",
            *keep,
            self.after,
            f"const uint64_t shown[] = {{{', '.join(f'v{i} + 1' for i in lives)}}};",
            f"const double halves[] = {{{', '.join(f'd{i}' for i in floats)}}};",
            "show(shown, sizeof shown / sizeof *shown, halves);",
            f'printf("{number}\\n");',  # or gcc 12 makes one of functions that differ in an operand's type
            "}",
        ]
        return (
            "\n".join(lines)
            .replace("T o", f"{kind} o")
            .replace("T value", f"{kind} value")
            .replace("(T)", f"({kind})")
        )


LOW = 77
"""Of each value the lowest byte, which is a token of either kind."""
EVENT = (
    "TRIGGERABLE_SETUP_EVENT_VECTOR(c.end_b, came); triggerable_enable_trigger(c.end_b);"
    "chanend_out_word(c.end_a, 9);"
)
TAKEN = """
    TRIGGERABLE_TAKE_EVENT(came);
    PRINT(0);
    goto taken;
came:
    PRINT(1);
taken:
    chanend_in_word(c.end_b);
"""
ON_RESOURCES = [
    _OnResources(
        'out res[%0], %1" : : "r"(c.end_a), "r"(value)', "", "PRINT((T)chanend_in_word(c.end_b));", [-1]
    ),
    _OnResources(
        'in %0, res[%1]" : "=r"(o) : "r"(c.end_b)', "chanend_out_word(c.end_a, in[0]);", "PRINT(o);", [-1]
    ),
    _OnResources(
        'outt res[%0], %1" : : "r"(c.end_a), "r"(value)', "", "PRINT(chanend_in_byte(c.end_b));", [LOW]
    ),
    _OnResources(
        'int %0, res[%1]" : "=r"(o) : "r"(c.end_b)', "chanend_out_byte(c.end_a, in[0]);", "PRINT(o);", [LOW]
    ),
    _OnResources(
        'outct res[%0], %1" : : "r"(c.end_a), "r"((T)(value & 0xff))',
        after="PRINT(chanend_in_control_token(c.end_b));",
        expected=[LOW],
    ),
    _OnResources(
        'inct %0, res[%1]" : "=r"(o) : "r"(c.end_b)',
        "chanend_out_control_token(c.end_a, in[0]);",
        "PRINT(o);",
        [LOW],
    ),
    _OnResources(
        'chkct res[%0], %1" : : "r"(c.end_b), "r"((T)(value & 0xff))',
        "chanend_out_control_token(c.end_a, in[0]);",
    ),
    _OnResources(
        'testct %0, res[%1]" : "=r"(o) : "r"(c.end_b)',
        "chanend_out_end_token(c.end_a);",
        "chanend_check_end_token(c.end_b); PRINT(o);",
        [1],
    ),
    _OnResources(
        'testwct %0, res[%1]" : "=r"(o) : "r"(c.end_b)',
        "chanend_out_byte(c.end_a, 5); chanend_out_end_token(c.end_a);",
        "chanend_in_byte(c.end_b); chanend_check_end_token(c.end_b); PRINT(o);",
        [2],
    ),
    _OnResources(
        'setd res[%0], %1" : : "r"(c.end_a), "r"(c.end_a)',
        after="PRINT(chanend_get_dest(c.end_a) == c.end_a); chanend_set_dest(c.end_a, c.end_b);",
        expected=[1],
    ),
    _OnResources('getd %0, res[%1]" : "=r"(o) : "r"(c.end_a)', after="PRINT(o == (T)c.end_b);", expected=[1]),
    _OnResources(
        'freer res[%0]" : : "r"(t)',
        "lock_t t = lock_alloc();",
        "lock_t u = lock_alloc(); PRINT(u == t); lock_free(u);",
        [1],
    ),
    _OnResources('settw res[%0], %1" : : "r"(sends), "r"((T)8)'),
    _OnResources('outpw res[%0], %1, %2" : : "r"(sends), "r"(value), "r"((T)4)', after="port_sync(sends);"),
    _OnResources(
        'setpsc res[%0], %1" : : "r"(sends), "r"((T)4)', after="port_out(sends, 5); port_sync(sends);"
    ),
    _OnResources('syncr res[%0]" : : "r"(sends)', "port_out(sends, 5);"),
    _OnResources(
        'getts %0, res[%1]" : "=r"(o) : "r"(sends)',
        "port_out(sends, 5); port_sync(sends);",
        "PRINT(o == (T)port_get_trigger_time(sends));",
        [1],
    ),
    _OnResources('setpt res[%0], %1; clrpt res[%0]" : : "r"(takes), "r"(value)'),
    _OnResources('setc res[%0], %1" : : "r"(takes), "r"((T)XS1_SETC_DRIVE_PULL_DOWN)'),
    _OnResources('peek %0, res[%1]" : "=r"(o) : "r"(takes)', after="PRINT(o);", expected=[0]),
    _OnResources(
        'endin %0, res[%1]" : "=r"(o) : "r"(takes)',
        "port_start_buffered(takes, 8); delay_ticks(4);",
        "PRINT(0 < o && o < 8);",
        [1],
    ),
    _OnResources(
        'setsr %1; getsr %0, 3; clrsr %1" : "=&r"(o) : "r"((T)2)',
        after='uint32_t s; asm volatile("getsr %0, 3" : "=r"(s)); PRINT(o); PRINT(s);',
        expected=[2, 0],
    ),
    _OnResources('ecallf %0; ecallt %1; elate %2" : : "r"((T)1), "r"((T)0), "r"(later)'),
    _OnResources(
        'eeu res[%0]" : : "r"(c.end_b)',
        "TRIGGERABLE_SETUP_EVENT_VECTOR(c.end_b, came); chanend_out_word(c.end_a, 9);",
        "TRIGGERABLE_WAIT_EVENT(came); came: PRINT(chanend_in_word(c.end_b)); triggerable_disable_all();",
        [9],
    ),
    _OnResources(
        'edu res[%0]" : : "r"(c.end_b)',
        EVENT,
        TAKEN,
        [0],
    ),
    _OnResources(
        "clre",
        EVENT,
        TAKEN,
        [0],
    ),
    _OnResources(
        "waiteu",
        EVENT,
        "PRINT(chanend_in_word(c.end_b)); triggerable_disable_all();",
        [9],
    ),
]
"""One case for each instruction that is not arithmetic; -1 is the value of the case, in its width."""


def test_every_instruction_has_a_case() -> None:
    on_resources = {name for case in ON_RESOURCES for name in case.names}
    assert {*ARITHMETIC, *on_resources} == {*INSTRUCTIONS}


@pytest.mark.in_full
@pytest.mark.parametrize(
    ("compiler", "optimization"),
    LEVELS if is_in_full() else [("gcc", "-O3"), pytest.param("clang", "-O2", marks=CLANG_TOO)],
)
def test_instructions_on_resources_keep_what_lives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, optimization: str
) -> None:
    random = Random(f"resources {compiler} {optimization}")
    widths = tuple(TYPES)
    cases = [
        (case, width)
        for case in ON_RESOURCES
        for width in (widths if is_in_full() else (random.choice(widths),))
    ]
    text = [
        "#include <stdint.h>",
        "#include <stdio.h>",
        "#include <xcore/channel.h>",
        "#include <xcore/hwtimer.h>",
        "#include <xcore/lock.h>",
        "#include <xcore/port.h>",
        "#include <xcore/triggerable.h>",
        '#define PRINT(x) printf("%llu ", (unsigned long long)(x))',
        "static channel_t c; static port_t sends = XS1_PORT_1A, takes = XS1_PORT_1B; static uint32_t later;",
        SHOW,
        *(case.c(number, width) for number, (case, width) in enumerate(cases)),
        "int main(void) {",
        "c = chan_alloc(); port_start_buffered(sends, 8); port_start_buffered(takes, 8); later = 1000000;",
    ]
    expected = []
    for number, (case, width) in enumerate(cases):
        living = [random.getrandbits(56) << 8 | LOW for _ in range(INTEGERS)]
        words = ", ".join(f"{value}ull" for value in living)
        text.append(f"on_{number}((uint64_t[]){{{words}}}, reals);")
        written = [living[0] & (1 << min(width, 32)) - 1 if value < 0 else value for value in case.expected]
        expected.append(
            [*written, *((value * 3 + 1) & (1 << 64) - 1 for value in living), *range(FLOATS), number]
        )
    source = tmp_path / "cases.c"
    source.write_text("\n".join([*text, "return 0;", "}"]))
    program = build(Program((Unit((source,), options=(optimization, "-w", "-g0")),)), need_compiler(compiler))
    assert run_whole_programs({0: program}, RunSettings()) == 0
    printed = [list(map(int, line.split())) for line in capfd.readouterr().out.splitlines()]
    assert len(printed) == len(cases)
    for (case, width), line, right in zip(cases, printed, expected, strict=True):
        assert line == right, (case.template, width)
