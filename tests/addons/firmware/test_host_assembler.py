"""XS3 instructions of inline assembly, against a model written from the instruction set.

The model: "The XMOS XS3 Architecture", instruction by instruction. The programs keep as many values alive
across each instruction as there are registers, of integers and of floating point.
"""

import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from aisrv.addons.firmware import host_assembler
from aisrv.addons.firmware.compiler import CompileError, Program, Unit, build
from aisrv.addons.firmware.host_assembler import InstructionError, Rewriter
from aisrv.addons.firmware.whole_program import TRAPPED, RunSettings, run_whole_programs
from tests.addons.firmware.verbs.test_ports import Watch, drives
from tests.support.amounts import is_in_full
from tests.support.benches.c_programs import (
    BITS,
    CASE,
    CLANG_TOO,
    COMPILERS,
    need_32_bits,
    need_compiler,
    one_of,
    run_c,
)

WORD = 0xFFFFFFFF
Model = Callable[..., tuple[int, ...]]


def _mask(bits: int) -> int:
    return WORD if bits > 31 else (1 << bits) - 1


def _zext(value: int, bits: int) -> int:
    return value if bits == 0 or bits > 31 else value & _mask(bits)


def _sext(value: int, bits: int) -> int:
    low = _zext(value, bits)
    return low | (WORD & ~_mask(bits)) if 0 < bits < 32 and low >> (bits - 1) else low


def _crc32(checksum: int, data: int, polynomial: int) -> int:
    for _ in range(32):
        feedback = checksum & 1
        checksum = checksum >> 1 | (data & 1) << 31
        data >>= 1
        if feedback:
            checksum ^= polynomial
    return checksum


def _groups(word: int, size: int) -> list[int]:
    return [word >> place & _mask(size) for place in range(0, 32, size)]


def _joined(groups: list[int], size: int) -> int:
    return sum(group << place * size for place, group in enumerate(groups))


def _zip(first: int, second: int, scale: int) -> tuple[int, int]:
    if scale > 4:
        return first, second
    size = 1 << scale
    pairs = zip(_groups(second, size), _groups(first, size), strict=True)
    both = _joined([group for pair in pairs for group in pair], size)
    return both >> 32, both & WORD


def _unzip(first: int, second: int, scale: int) -> tuple[int, int]:
    if scale > 4:
        return first, second
    size = 1 << scale
    groups = _groups(second, size) + _groups(first, size)
    return _joined(groups[1::2], size), _joined(groups[::2], size)


ARITHMETIC: dict[str, tuple[str, Model]] = {
    "mkmsk": ("ds", lambda s: (_mask(s),)),
    "bitrev": ("ds", lambda s: (int(f"{s:032b}"[::-1], 2),)),
    "byterev": ("ds", lambda s: (int.from_bytes(s.to_bytes(4, "little"), "big"),)),
    "clz": ("ds", lambda s: (32 - s.bit_length(),)),
    "ldc": ("ds", lambda s: (s,)),
    "sext": ("xs", lambda x, s: (_sext(x, s),)),
    "zext": ("xs", lambda x, s: (_zext(x, s),)),
    "andnot": ("xs", lambda x, s: (x & ~s,)),
    "crc32": ("xss", lambda x, s, t: (_crc32(x, s, t),)),
    "zip": ("xxs", lambda x, y, s: _zip(x, y, s)),
    "unzip": ("xxs", lambda x, y, s: _unzip(x, y, s)),
    "in": ("ds", lambda s: (s,)),
}
"""Instructions, their operands as the assembler has them, and what they write, of what they read."""
TEMPLATES = {"in": "in %0, res[%1]\\n out res[%1], %1"}
"""Where they are not the name and its operands: at a lock, other code of ours runs meanwhile."""
LOCK = 0x80000005

TYPES = {8: "uint8_t", 16: "uint16_t", 32: "uint32_t", 64: "uint64_t"}
INTEGERS = 12
FLOATS = 14


def test_the_model_does_what_is_published() -> None:
    assert _zip(WORD, 0, 0) == (0xAAAAAAAA, 0xAAAAAAAA)
    assert _zip(0x01234567, 0x89ABCDEF, 2) == (0x08192A3B, 0x4C5D6E7F)
    assert _unzip(*_zip(0x01234567, 0x89ABCDEF, 3), 3) == (0x01234567, 0x89ABCDEF)
    first = (
        int.from_bytes(b"1234", "little") ^ WORD
    )  # 32 more bits, of zeros, are the CRC of these four bytes
    assert _crc32(first, 0, 0xEDB88320) ^ WORD == zlib.crc32(b"1234")


class _Case:
    """One instruction with operands of a width, or a constant as the last one."""

    def __init__(self, name: str, width: int, constant: int | None, random: Random) -> None:
        self.name = name
        self.kinds, self.model = ARITHMETIC[name]
        self.width, self.constant = width, constant
        small = {"mkmsk", "sext", "zext", "zip", "unzip"}
        read = [kind for kind in self.kinds if kind in "sx"]
        values = [random.choice((0, 1, 0x80, WORD, random.getrandbits(32))) & _mask(width) for _ in read]
        if name in TEMPLATES:
            values = [LOCK]
        if name in small:
            values[-1] = random.choice((0, 1, 2, 3, 4, 5, 7, 8, 16, 31, 32, 33))
        self.values = values
        self.living = [random.getrandbits(64) for _ in range(INTEGERS)]

    @property
    def expected(self) -> list[int]:
        """What the program prints: what the instruction writes, then the values that live across it."""
        values = list(self.values)
        if self.constant is not None:
            values[-1] = self.constant
        written = [value & _mask(self.width) for value in self.model(*values)]
        integers = [(value * 3 + 1) & (1 << 64) - 1 for value in self.living]
        return [*written, *integers, *range(FLOATS)]

    def c(self, number: int) -> str:
        """Write it as a function of C."""
        kind = TYPES[self.width]
        names = [f"o{place}" for place in range(len(self.kinds))]
        declared, outputs, inputs = [], [], []
        for place, (each, name) in enumerate(zip(self.kinds, names, strict=True)):
            last = place == len(self.kinds) - 1 and self.constant is not None
            value = "" if each == "d" else f" = ({kind})in[{INTEGERS + place}]"
            declared.append(f"{kind} {name}{value};")
            register = (
                "q" if self.width == 8 else "r"
            )  # with 32 bits gcc also takes registers without bytes for "r"
            if each in "dx":
                outputs.append(f'"{"=&" if each == "d" else "+&"}{register}"({name})')
            else:
                inputs.append(f'"i"({self.constant})' if last else f'"{register}"({name})')
        operands = ", ".join(f"%{place}" for place in range(len(names)))
        template = TEMPLATES.get(self.name, f"{self.name} {operands}")
        lives = range(INTEGERS)
        floats = range(FLOATS)
        written = [name for name, each in zip(names, self.kinds, strict=True) if each in "dx"]
        slots = iter(self.values)
        given = [*self.living, *(0 if each == "d" else next(slots) for each in self.kinds)]
        lines = [
            f"uint64_t in_{number}[] = {{{', '.join(f'{value}ull' for value in given)}}};",
            f"__attribute__((noinline)) static void case_{number}(const uint64_t *in, const double *real) {{",
            *(f"uint64_t v{i} = in[{i}] * 3;" for i in lives),
            *(f"double d{i} = real[{i}] * 2;" for i in floats),
            *declared,
            *(f'__asm__ volatile("" : "+r"(v{i}));' for i in lives),
            *(f'__asm__ volatile("" : "+x"(d{i}));' for i in floats),
            f'asm volatile("{template}" : {", ".join(outputs)} : {", ".join(inputs)});',
            *(f'__asm__ volatile("" : "+r"(v{i}));' for i in lives),
            *(f'__asm__ volatile("" : "+x"(d{i}));' for i in floats),
            f"const uint64_t shown[] = {{{', '.join((*written, *(f'v{i} + 1' for i in lives)))}}};",
            f"const double halves[] = {{{', '.join(f'd{i}' for i in floats)}}};",
            "show(shown, sizeof shown / sizeof *shown, halves);",
            'puts("");',
            "}",
        ]
        return "\n".join(lines)

    def call(self, number: int) -> str:
        """Call it."""
        return f"case_{number}(in_{number}, reals);"


SHOW = f"""
double reals[] = {{{", ".join(map(str, range(FLOATS)))}}};
__attribute__((noinline)) static void show(const uint64_t *shown, unsigned count, const double *twice) {{
    for (unsigned i = 0; i < count; i++) printf("%llu ", (unsigned long long)shown[i]);
    for (unsigned i = 0; i < {FLOATS}; i++) printf("%d ", (int)(twice[i] / 2));
}}
"""


def _cases(random: Random, bits: int) -> list[_Case]:
    """Return cases of each instruction and width up to `bits`, and some with constants."""
    types = [width for width in TYPES if width <= bits]
    widths = [(name, width) for name in ARITHMETIC for width in types if name not in TEMPLATES or width >= 32]
    cases = [_Case(*each, None, random) for each in widths for _ in range(3)]
    constants = {"crc32": 0xEDB88320, "ldc": 65535, "andnot": 0xF0F0, "bitrev": 0x1234, "byterev": 0x1234}
    cases += [
        _Case(name, 32, constants.get(name, constant), random)
        for name in sorted(ARITHMETIC.keys() - TEMPLATES.keys())
        for constant in (0, 1, 3, 4, 5, 8, 31)
    ]
    return cases


LEVELS = [(compiler, f"-O{level}") for compiler in ("gcc", "clang") for level in "0123s"]


@pytest.mark.in_full
@pytest.mark.parametrize("bits", [64, 32])
@pytest.mark.parametrize(
    ("compiler", "optimization"),
    LEVELS if is_in_full() else [("gcc", "-O2"), pytest.param("clang", "-O1", marks=CLANG_TOO)],
)
def test_each_instruction_of_each_width_keeps_what_lives(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, optimization: str, bits: int
) -> None:
    if bits == 32:
        need_32_bits(need_compiler(compiler))
    cases = _cases(Random(f"{compiler} {optimization}"), bits)
    if not is_in_full():
        cases = cases[::5]
    text = [
        "#include <stdint.h>",
        "#include <stdio.h>",
        "#include <xcore/lock.h>",
        SHOW,
        *(case.c(number) for number, case in enumerate(cases)),
        "int main(void) {",
        "lock_alloc();",
        *(case.call(number) for number, case in enumerate(cases)),
        "return 0;",
        "}",
    ]
    source = tmp_path / "cases.c"
    source.write_text("\n".join(text))
    units = (Unit((source,), options=(optimization, "-g0")),)
    program = build(Program(units, bits=bits), need_compiler(compiler))
    assert run_whole_programs({0: program}, RunSettings()) == 0
    printed = capfd.readouterr().out.splitlines()
    assert len(printed) == len(cases)
    for case, line in zip(cases, printed, strict=True):
        assert list(map(int, line.split())) == case.expected, (
            case.name,
            case.width,
            case.values,
            case.constant,
        )


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("compiler", COMPILERS)
def test_instructions_on_resources(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, bits: int
) -> None:
    text = r"""
    static void instruct(channel_t c) {
        uint32_t word, token, is_control, place, destination;
        asm volatile("out res[%0], %1" : : "r"(c.end_a), "r"(0x01020304));
        asm volatile("testwct %0, res[%1]" : "=r"(place) : "r"(c.end_b));
        asm volatile("in %0, res[%1]" : "=r"(word) : "r"(c.end_b));
        printf("%x, control at %u\n", word, place);
        asm volatile("outt res[%0], %1\n\toutct res[%0], 3" : : "r"(c.end_a), "r"(0x199));
        asm volatile("int %0, res[%1]" : "=r"(token) : "r"(c.end_b));
        asm volatile("testct %0, res[%1]" : "=r"(is_control) : "r"(c.end_b));
        printf("token %x, control %u\n", token, is_control);
        asm volatile("inct %0, res[%1]" : "=r"(token) : "r"(c.end_b));
        asm volatile("outct res[%0], %1; chkct res[%2], 1" : : "r"(c.end_a), "r"(1), "r"(c.end_b));
        asm volatile("getd %0, res[%1]" : "=r"(destination) : "r"(c.end_a));
        printf("control %u, to %x\n", token, destination);
        asm volatile("setd res[%0], %1" : : "r"(c.end_a), "r"(c.end_a));
        asm volatile("getd %0, res[%1]" : "=r"(destination) : "r"(c.end_a));
        printf("to itself: %d\n", destination == c.end_a);
    }
    static void time_and_locks(void) {
        uint32_t time;
        hwtimer_t t = hwtimer_alloc();
        lock_t l = lock_alloc();
        asm volatile("setd res[%0], %1" : : "r"(t), "r"(499));
        asm volatile("in %0, res[%1]" : "=r"(time) : "r"(t));
        printf("time %u\n", time);
        asm volatile("in %0, res[%1]" : "=r"(time) : "r"(l));
        asm volatile("out res[%0], %0" : : "r"(l));
        printf("lock %d\n", time == l);
        asm volatile("freer res[%0]; freer res[%1]" : : "r"(t), "r"(l));
        printf("free: %d\n", hwtimer_alloc() == t && lock_alloc() == l);
    }
    int main(void) {
        channel_t c = chan_alloc();
        instruct(c);
        time_and_locks();
        asm volatile("ecallf %0\n ecallt %1" : : "r"(1), "r"(0));
        asm volatile("elate %0" : : "r"(get_reference_time() + 10));
        return 0;
    }
    """
    assert run_c(tmp_path, text, compiler=compiler, bits=bits) == 0
    assert capfd.readouterr().out.splitlines() == [
        "1020304, control at 0",
        "token 99, control 1",
        "control 3, to 80000202",
        "to itself: 1",
        "time 500",
        "lock 1",
        "free: 1",
    ]


@pytest.mark.parametrize("compiler", COMPILERS)
def test_instructions_on_ports(tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str) -> None:
    text = r"""
    #include <xcore/clock.h>
    #include <xcore/port.h>
    int main(void) {
        port_t out = XS1_PORT_1A, in = XS1_PORT_1B;
        uint32_t time, data, bits, pins;
        port_enable(in);
        port_start_buffered(out, 8);
        asm volatile("settw res[%0], 32" : : "r"(out));
        asm volatile("outpw res[%0], %1, 4" : : "r"(out), "r"(0x5));
        asm volatile("syncr res[%0]" : : "r"(out));
        asm volatile("getts %0, res[%1]" : "=r"(time) : "r"(out));
        asm volatile("setpt res[%0], %1" : : "r"(out), "r"(100));
        asm volatile("setpsc res[%0], 2; out res[%0], %1" : : "r"(out), "r"(1));
        asm volatile("syncr res[%0]" : : "r"(out));
        asm volatile("peek %0, res[%1]" : "=r"(pins) : "r"(in));
        asm volatile("in %0, res[%1]" : "=r"(data) : "r"(in));
        printf("%u %u %u\n", time, pins, data);
        port_start_buffered(in, 8);
        delay_ticks(4);
        asm volatile("endin %0, res[%1]" : "=r"(bits) : "r"(in));
        printf("%d\n", bits < 8);
        asm volatile("setc res[%0], %1" : : "r"(in), "n"(XS1_SETC_DRIVE_PULL_UP));
        asm volatile("setpt res[%0], 5; clrpt res[%0]" : : "r"(in));
        asm volatile("setd res[%0], %1" : : "r"(in), "r"(1));
        return 0;
    }
    """
    watch, wire = Watch("1A"), drives("1B", (0, 1))
    assert run_c(tmp_path, text, compiler=compiler, outside=[watch, wire]) == 0
    assert watch.waves["1A"] == [(1, 1), (2, 0), (3, 1), (4, 0), (100, 1), (101, 0)]
    assert capfd.readouterr().out == "1 1 1\n1\n"


@pytest.mark.parametrize(
    ("compiler", "bits"),
    [("gcc", 64), ("clang", 64), pytest.param("clang", 32, marks=pytest.mark.long("32 bits as well as 64"))],
)
def test_status_of_interrupts_and_events(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str, bits: int
) -> None:
    text = r"""
    static uint32_t status(void) {
        uint32_t state;
        asm volatile("getsr r11, %1\n"
                     "mov %0, r11" : "=r"(state) : "n"(3) : "r11");
        return state;
    }
    static int wait(chanend_t c) {
        TRIGGERABLE_SETUP_EVENT_VECTOR(c, came);
        asm volatile("eeu res[%0]" : : "r"(c));
        asm volatile goto("waiteu" : : : "memory" : came);
        return 0;
    came:
        asm volatile("edu res[%0]" : : "r"(c));
        return (int)chanend_in_word(c);
    }
    int main(void) {
        channel_t c = chan_alloc();
        printf("%u", status());
        asm volatile("setsr %0" : : "n"(2));
        printf(" %u", status());
        asm volatile("setsr 1\n clrsr 2");
        printf(" %u\n", status());
        chanend_out_word(c.end_b, 17);
        printf("event %d\n", wait(c.end_a));
        fflush(stdout);
        asm volatile("clre; waiteu");
        return 0;
    }
    """
    assert run_c(tmp_path, text, compiler=compiler, bits=bits) == TRAPPED  # a wait for no event
    assert capfd.readouterr().out == "0 2 1\nevent 17\n"


@pytest.mark.parametrize("compiler", COMPILERS)
def test_stack_words_that_only_xmos_s_tools_count_are_0(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str
) -> None:
    text = r"""
    int main(void) {
        unsigned words = 5;
        asm("ldc %0, main.nstackwords" : "=r"(words));
        printf("%u\n", words);
        return 0;
    }
    """
    assert run_c(tmp_path, text, compiler=compiler) == 0
    assert capfd.readouterr().out == "0\n"


EXCEPTIONS = ("ecallf 0", "ecallt 1", "elate 0")


@pytest.mark.parametrize("instruction", EXCEPTIONS)
def test_exceptions_name_their_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, instruction: str
) -> None:
    monkeypatch.setenv(CASE, str(EXCEPTIONS.index(instruction)))
    text = f"""
    static void fails(void) {{
        delay_ticks(10);
        {one_of(f'asm volatile("{each}")' for each in EXCEPTIONS)}
    }}
    int main(void) {{
        fails();
        return 0;
    }}
    """
    assert run_c(tmp_path, text) == TRAPPED
    name = instruction.split(maxsplit=1)[0]
    assert f"ECALL (8): {name}, in fails at program.c:3, called by main at program.c:6" in caplog.text


# What can't be served.


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize(
    ("instruction", "name"),
    [("bau %0", "bau"), ("ldw %0, %0[1]", "ldw"), ("add %0, %0, 1", "add"), ("setclk res[%0], 8", "setclk")],
)
def test_other_instructions_are_named_with_their_place(
    tmp_path: Path, compiler: str, instruction: str, name: str
) -> None:
    source = tmp_path / "other.c"
    source.write_text(
        f'int main(void) {{\n  unsigned a = 0;\n  asm volatile("nop\\n{instruction}" : "+r"(a));\n}}\n'
    )
    with pytest.raises(CompileError) as error:
        build(Program((Unit((source,)),)), need_compiler(compiler))
    assert f"{source}:3: XS3 instruction '{name}' has no counterpart on the host" in str(error.value)


def test_wide_registers_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "wide.c"
    source.write_text(
        "typedef float wide __attribute__((vector_size(32)));\nwide v;\n"
        'int main(void) { unsigned a; v = v + v; asm volatile("mkmsk %0, 3" : "=r"(a)); }\n'
    )
    with pytest.raises(
        CompileError, match="keep no registers wider than 128 bits: leave out -mavx and -march"
    ):
        build(Program((Unit((source,), options=("-mavx",)),)), need_compiler("gcc"))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("mkmsk %eax", "'mkmsk' has 2 operands, not 1"),
        ("mkmsk %eax, 8(%rsp)", "8(%rsp) is neither a register nor a constant"),
        ("mkmsk %eax, r3", "r3 is neither a register nor a constant"),
        ("mkmsk 5, %eax", "5 is not a register"),
        ("mov r3, r11", "r3 is not a register"),
        ("freer res[8(%rsp)]", "8(%rsp) is neither a register nor a constant"),
        ("chkct res[%eax]", "'chkct' has 2 operands, not 1"),
        ("out res[%eax], 5, 6", "'out' has 2 operands, not 3"),
    ],
)
def test_operands_that_are_none(line: str, message: str) -> None:
    text = f'#APP\n# 7 "a.c" 1\n\t{line}\n# 0 "" 2\n#NO_APP\n'
    with pytest.raises(InstructionError) as error:
        Rewriter().rewrite(text)
    assert str(error.value).startswith("a.c:7: ")
    assert message in str(error.value)


# What is left alone.


def test_only_xs3_instructions_between_the_marks_are_rewritten() -> None:
    text = """
\tmkmsk:
\tbl\t7
#APP
# 3 "a.c" 1
\tmov %eax, %ebx
\tmov $5, %ebx ; neg %eax
\tin %dx, %al
\tint $3
\tsetc %al
\tadd %eax, %ebx
.globl x; x: .long 5
# 0 "" 2
#NO_APP
\tbau
"""
    rewritten = Rewriter().rewrite(text)
    assert rewritten.replace("\n", "").replace(" ", "") == text.replace(";", "").replace("\n", "").replace(
        " ", ""
    )


def test_inline_assembly_of_the_host_goes_on_to_work(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = r"""
    int main(void) {
        unsigned a = 5, b;
        asm volatile("lea 3(%q1), %0\n\tneg %0" : "=r"(b) : "r"(a));
        printf("%d\n", (int)b);
        return 0;
    }
    """
    assert run_c(tmp_path, text) == 0
    assert capfd.readouterr().out == "-8\n"


def test_as_a_program_it_assembles_what_comes_by_standard_input(tmp_path: Path) -> None:
    need_compiler()
    done = subprocess.run(
        [sys.executable, "-I", host_assembler.__file__, "-o", str(tmp_path / "a.o")],
        input="\tnop\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "a.o").read_bytes().startswith(b"\x7fELF")
