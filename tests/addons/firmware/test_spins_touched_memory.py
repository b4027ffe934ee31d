"""What memory an instruction touches, as the runtime of a tile decodes it, against what Unicorn sees."""

import os
import random
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import pytest
from msgspec import Struct

from aisrv.addons.firmware.compiler import HERE
from aisrv.addons.firmware.word_size import word_size_options
from tests.support.benches.c_programs import need_32_bits, need_compiler
from tests.support.programs import missing

unicorn = pytest.importorskip("unicorn", reason="pip install unicorn")
x86 = pytest.importorskip("unicorn.x86_const")

REGISTERS = {
    64: (
        *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx"),
        *("rdx", "rax", "rcx", "rsp", "rip", "eflags"),
    ),
    32: (
        *("gs", "fs", "es", "ds", "edi", "esi", "ebp", "esp", "ebx", "edx", "ecx", "eax"),
        *("trapno", "err", "eip", "cs", "eflags"),
    ),
}
"""In the order of Linux's `gregs`, with pointers of so many bits."""
OF_SIGNALS = ("gs", "fs", "es", "ds", "trapno", "err", "cs")
"""Which no operand has."""
PAGES: Final = 4 * 4096
CODE: Final = 0x10000000
DATA: Final = 0x20000000

READS = """
    movl M,%eax; movl M,%r15d; movq M,%rax; movw M,%ax; movb M,%al; movzbl M,%eax; movzwl M,%r9d
    movsbq M,%rax; movslq M,%rax; cmpl $5,M; cmpl $0x12345,M; cmpq $-1,M; cmpw $0x1234,M; cmpb $7,M
    testl $0x1000,M; testb $1,M; testw $0x101,M; cmpl %eax,M; cmpb M,%cl; addq M,%rax; andl M,%edx
    imull M,%eax; imull $3,M,%eax; imull $0x1234,M,%eax; imulq $0x1234,M,%rax; cmovel M,%eax
    cmovneq M,%rax; bsfl M,%eax; btl $3,M; push M; movd M,%xmm1; movq M,%xmm1; movss M,%xmm1
    movsd M,%xmm9; movups M,%xmm2; movdqu M,%xmm3; addss M,%xmm1; mulsd M,%xmm1; ucomiss M,%xmm0
    ucomisd M,%xmm0; cvtsi2sdl M,%xmm0; cvtsi2sdq M,%xmm0; cvttss2si M,%eax; shufps $1,MA,%xmm0
    pshufd $1,MA,%xmm0; paddd MA,%xmm0; movlps M,%xmm0; movhps M,%xmm0; pshufb MA,%xmm0
    xorps MA,%xmm0; andps MA,%xmm0; mulb M; divl M; sqrtss M,%xmm0; stmxcsr M
"""
STORES = """
    movl %eax,M; movq %r9,M; movw %ax,M; movb %al,M; movb %sil,M; movl $5,M; movq $-5,M
    movw $0x1234,M; movb $9,M; sete M; setb M; movd %xmm1,M; movq %xmm1,M; movss %xmm1,M
    movsd %xmm1,M; movups %xmm2,M; movdqu %xmm8,M; movaps %xmm1,MA; movlps %xmm1,M; movhps %xmm1,M
    movnti %eax,M
"""
BOTH = """
    addl $1,M; addl %eax,M; incl M; incb M; decq M; negl M; notb M; subw $0x1000,M; orb $4,M
    shll $3,M; shrq $1,M; sarl %cl,M; xchgl %eax,M; xaddl %eax,M; cmpxchgl %edx,M; btsl $3,M
    shldl %cl,%eax,M; lock addl $1,M
"""
NONE = """
    nop; pause; leaq M,%rax; movl %eax,%edx; addl $5,%r9d; nopw M; nopl M; prefetcht0 M; jmp 1f
    cmpl $5,%eax; bswap %eax; imull $3,%edx,%eax; pushq %rax; popq %rax; call 1f; sete %al
    movaps %xmm0,%xmm1; endbr64; cltq; fxsave M; fxrstor M; testb $1,%al; ret; leave; je 1f; emms
    incl %ecx; decl %eax
"""
UNKNOWN = """
    syscall; rdtsc; rdtscp; cpuid; movsb; rep stosq; lodsl; scasb; cmpsb; btl %eax,M; btsl %eax,M
    movabsl 0x1122334455667788,%eax; vmovups M,%ymm0; vmovdqu M,%xmm0; rdrand %eax; xsave M; int3
    movl OTHER:M,%eax; movl SHORT,%edx; xgetbv; ud2; xlatb; vpxorq M,%zmm0,%zmm0
"""


DRIVER: Final = r"""
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "touched_memory.h"
int main(void) {
    char text[65];
    unsigned char *code = mmap((void *)0x10000000, 4096, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    while (scanf("%64s", text) == 1) {
        greg_t registers[NGREG] = {0};
        for (int i = 0; i < 32; i++) sscanf(text + 2 * i, "%2hhx", &code[i]);
        for (int i = 0; i < REGISTERS; i++) {
            unsigned long long value;
            if (scanf("%llx", &value) != 1) return 1;
            registers[i] = (greg_t)value;
        }
        touched_t found = touched_by_next(registers);
        printf("%d %llu ", found.is_known, (unsigned long long)found.address);
        printf("%u %d\n", found.bytes, found.is_store);
    }
    return 0;
}
"""
"""Reads instructions and registers, in hex, and prints what the decoder makes of each."""


class Touched(Struct, frozen=True):
    """`touched_t`."""

    is_known: bool
    address: int
    bytes: int
    is_store: bool


class Decoder:
    """The decoder as a program of its own."""

    def __init__(self, folder: Path, bits: int) -> None:
        self.bits, self._program = bits, folder / f"decoder{bits}"
        compiler = need_compiler()
        if bits == 32:
            need_32_bits(compiler)
        driver = folder / f"driver{bits}.c"
        driver.write_text(DRIVER)
        call = [compiler, "-std=gnu11", "-D_GNU_SOURCE", "-O1", *word_size_options(bits), f"-I{HERE}"]
        call += [f"-DREGISTERS={len(REGISTERS[bits])}"]
        subprocess.run([*call, driver, HERE / "touched_memory.c", "-o", self._program], check=True)

    def decode(self, cases: Sequence[tuple[bytes, Sequence[int]]]) -> list[Touched]:
        """Decode instructions of 32 bytes at most, each with its registers."""
        lines = [" ".join((code.hex(), *(f"{value:x}" for value in values))) for code, values in cases]
        done = subprocess.run(
            [self._program], input="\n".join(lines), stdout=subprocess.PIPE, text=True, check=True
        )
        found = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
        assert len(found) == len(cases)
        return [Touched(bool(known), address, size, bool(store)) for known, address, size, store in found]


@pytest.fixture(scope="module", params=[64, 32])
def decoder(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Decoder:
    """The decoder for code of 64 and of 32 bits."""
    return Decoder(tmp_path_factory.mktemp("decoder"), request.param)


def operands(draw: random.Random, bits: int) -> Iterator[tuple[str, str, str]]:
    """Operands in memory, with the registers that are their base and their index."""
    wide = "r" if bits == 64 else "e"
    general = [name for name in REGISTERS[bits] if name not in (*OF_SIGNALS, f"{wide}ip", "eflags")]
    for base in (
        f"{wide}ax",
        f"{wide}bx",
        f"{wide}sp",
        f"{wide}bp",
        general[0],
        general[-1],
        general[4],
        general[5],
    ):
        index = draw.choice([name for name in general if name not in (base, f"{wide}sp")])
        scale, near, far = draw.choice((1, 2, 4, 8)), draw.choice((-128, 8, 127)), draw.choice((0x80, -0x200))
        yield f"(%{base})", base, ""
        yield f"{near}(%{base})", base, ""
        yield f"{far}(%{base},%{index},{scale})", base, index
        yield f"(%{base},%{index},{scale})", base, index
    yield "0x300(%rip)" if bits == 64 else f"{DATA + 0x300:#x}", "", ""


def forms(text: str, bits: int) -> list[str]:
    """Return instructions that there are with so many bits, as the assembler says."""
    found = [line.strip() for line in text.replace("\n", ";").split(";") if line.strip()]
    other, short = (
        ("%gs", "(%eax)") if bits == 64 else ("%fs", "(%bx)")
    )  # another segment than that of threads
    lines = [form.replace("OTHER", other).replace("SHORT", short) for form in found]
    source = "\n1:".join(line.replace("MA", "M").replace("M", "8(%eax)") for line in lines) + "\n1:\n"
    if bits == 64:
        source = source.replace("%eax)", "%rax)")
    call = ["as", f"--{bits}", "-o", os.devnull, "-"]
    done = subprocess.run(call, input=source, capture_output=True, text=True, check=False)
    without = {int(number) for number in re.findall(r":(\d+): Error", done.stderr)}
    return [line for number, line in enumerate(lines, 1) if number not in without]


def assembled(folder: Path, lines: list[str], bits: int) -> list[bytes]:
    """Assemble instructions, each by itself."""
    if shutil.which("objcopy") is None:
        missing("objcopy is not installed; .ci/packages does that")
    source = "".join(f".balign 32,0x90\n{line}\n1:\n" for line in lines)
    call = ["as", f"--{bits}", "-o", f"{folder}/code.o", "-"]
    subprocess.run(call, input=source, text=True, check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", folder / "code.o", folder / "code"], check=True)
    code = (folder / "code").read_bytes()
    return [code[place : place + 32].ljust(32, b"\x90") for place in range(0, 32 * len(lines), 32)]


class Machine:
    """An x86 that tells what an instruction touches."""

    def __init__(self, bits: int) -> None:
        self._names = REGISTERS[bits]
        self._bits = bits
        self._uc = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64 if bits == 64 else unicorn.UC_MODE_32)
        self._uc.mem_map(CODE, PAGES)
        self._uc.mem_map(DATA, PAGES)
        self._accesses: list[tuple[bool, int, int]] = []
        self._uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._hear)

    def _hear(self, _uc: object, access: int, address: int, size: int, _value: int, _data: object) -> None:
        self._accesses.append((access == unicorn.UC_MEM_WRITE, address, size))

    def run(self, code: bytes, registers: list[int]) -> list[tuple[bool, int, int]]:
        """Run one instruction, and return its accesses: whether written, where, how many bytes."""
        self._uc.mem_write(CODE, code)
        self._uc.ctl_remove_cache(CODE, CODE + len(code))
        self._uc.mem_write(DATA, b"\x01" * PAGES)
        for name, value in zip(self._names, registers, strict=True):
            if name not in OF_SIGNALS:
                self._uc.reg_write(getattr(x86, f"UC_X86_REG_{name.upper()}"), value)
        self._accesses = []
        self._uc.emu_start(CODE, CODE + 32, count=1)
        return self._accesses

    def registers(self, base: str, index: str) -> list[int]:
        """Registers by which an operand lies in the data."""
        wide = "er"[self._bits == 64]
        values = dict.fromkeys(self._names, 0)
        values |= {
            f"{wide}ax": 0x11,
            f"{wide}cx": 3,
            f"{wide}ip": CODE,
            f"{wide}sp": DATA + 0x3000,
            "eflags": 2,
        }
        if base:
            values[base] = DATA + 0x2000
        if index:
            values[index] = 0x20
        return [values[name] for name in self._names]


@pytest.mark.parametrize(("group", "is_store"), [(READS, False), (STORES, True), (BOTH, False)])
def test_operands_in_memory_are_those_of_the_processor(
    tmp_path: Path, decoder: Decoder, group: str, is_store: bool
) -> None:
    draw, machine, bits = random.Random(1), Machine(decoder.bits), decoder.bits
    cases = [(form, *each) for form in forms(group, bits) for each in operands(draw, bits)]
    lines = [form.replace("MA", "M").replace("M", memory) for form, memory, _, _ in cases]
    codes = assembled(tmp_path, lines, bits)
    registers = [machine.registers(base, index) for _, _, base, index in cases]
    decoded = decoder.decode(list(zip(codes, registers, strict=True)))
    ran = 0
    for (form, *_), line, code, values, found in zip(cases, lines, codes, registers, decoded, strict=True):
        if "MA" in form and ("127(" in line or "rip" in line):
            continue  # not aligned
        try:
            accesses = machine.run(code, values)
        except unicorn.UcError:
            assert form.startswith("div"), line  # by which the other operand is too large
            continue
        if form.startswith("push"):
            accesses = accesses[:1]
        first = min(address for _, address, _ in accesses)
        end = max(address + size for _, address, size in accesses)
        assert (line, found.is_known, found.address, found.is_store) == (line, True, first, is_store)
        assert (line, found.bytes) == (line, end - first)
        ran += 1
    assert ran > len(cases) * 3 // 4


def _decoded(text: str, folder: Path, decoder: Decoder) -> list[tuple[str, Touched]]:
    """Decode instructions, those with an operand at 8 bytes from the accumulator."""
    base = "rax" if decoder.bits == 64 else "eax"
    lines = [form.replace("M", f"8(%{base})") for form in forms(text, decoder.bits)]
    registers = Machine(decoder.bits).registers(base, "")
    codes = assembled(folder, lines, decoder.bits)
    return list(zip(lines, decoder.decode([(code, registers) for code in codes]), strict=True))


def test_what_has_no_operand_in_memory(tmp_path: Path, decoder: Decoder) -> None:
    for line, found in _decoded(NONE, tmp_path, decoder):
        assert (line, found.is_known, found.bytes) == (line, True, 0)


def test_what_is_unknown(tmp_path: Path, decoder: Decoder) -> None:
    for line, found in _decoded(UNKNOWN, tmp_path, decoder):
        assert (line, found.is_known) == (line, False)
