"""What memory an instruction touches, as the runtime of a tile decodes it, against what Unicorn sees."""

import ctypes
import mmap
import random
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from aisrv.firmware.compiler import HERE
from tests.support.c_programs import need_compiler
from tests.support.programs import missing

unicorn = pytest.importorskip("unicorn", reason="pip install unicorn")
x86 = pytest.importorskip("unicorn.x86_const")

REGISTERS = (
    *("r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "rdi", "rsi", "rbp", "rbx"),
    *("rdx", "rax", "rcx", "rsp", "rip", "eflags"),
)
"""In the order of Linux's `gregs`."""
NUMBERS = [getattr(x86, f"UC_X86_REG_{name.upper()}") for name in REGISTERS]
PAGES = 4 * 4096

READS = """
    movl M,%eax; movl M,%r15d; movq M,%rax; movw M,%ax; movb M,%al; movzbl M,%eax; movzwl M,%r9d
    movsbq M,%rax; movslq M,%rax; cmpl $5,M; cmpl $0x12345,M; cmpq $-1,M; cmpw $0x1234,M; cmpb $7,M
    testl $0x1000,M; testb $1,M; testw $0x101,M; cmpl %eax,M; cmpb M,%cl; addq M,%rax; andl M,%edx
    imull M,%eax; imull $3,M,%eax; imull $0x1234,M,%eax; imulq $0x1234,M,%rax; cmovel M,%eax
    cmovneq M,%rax; bsfl M,%eax; btl $3,M; pushq M; movd M,%xmm1; movq M,%xmm1; movss M,%xmm1
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
"""
UNKNOWN = """
    syscall; rdtsc; rdtscp; cpuid; movsb; rep stosq; lodsl; scasb; cmpsb; btl %eax,M; btsl %eax,M
    movabsl 0x1122334455667788,%eax; vmovups M,%ymm0; vmovdqu M,%xmm0; rdrand %eax; xsave M; int3
    movl %gs:M,%eax; movl (%eax),%edx; xgetbv; ud2; xlatb; vpxorq M,%zmm0,%zmm0
"""


class Touched(ctypes.Structure):
    """`touched_t`."""

    _fields_ = (
        ("is_known", ctypes.c_int),
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_uint),
        ("is_store", ctypes.c_int),
    )


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """The decoder as a library."""
    path = tmp_path_factory.mktemp("decoder") / "decoder.so"
    call = [need_compiler(), "-std=gnu11", "-D_GNU_SOURCE", "-O1", "-shared", "-fPIC", f"-I{HERE}"]
    subprocess.run([*call, HERE / "touched_memory.c", "-o", path], check=True)
    library = ctypes.CDLL(str(path))
    library.touched_by_next.restype = Touched
    return library


def operands(draw: random.Random) -> Iterator[tuple[str, str, str]]:
    """Operands in memory, with the registers that are their base and their index."""
    for base in ("rax", "rbx", "rsp", "rbp", "r8", "r12", "r13"):
        index = draw.choice([name for name in REGISTERS[:15] if name != base])
        scale, near, far = draw.choice((1, 2, 4, 8)), draw.choice((-128, 8, 127)), draw.choice((0x80, -0x200))
        yield f"(%{base})", base, ""
        yield f"{near}(%{base})", base, ""
        yield f"{far}(%{base},%{index},{scale})", base, index
        yield f"(%{base},%{index},{scale})", base, index
    yield "0x300(%rip)", "", ""


def assembled(folder: Path, lines: list[str]) -> list[bytes]:
    """Assemble instructions, each by itself."""
    if shutil.which("objcopy") is None:
        missing("objcopy is not installed; .ci/packages does that")
    source = "".join(f".balign 32,0x90\n{line}\n1:\n" for line in lines)
    subprocess.run(["as", "-o", folder / "code.o", "-"], input=source, text=True, check=True)
    subprocess.run(["objcopy", "-O", "binary", "-j", ".text", folder / "code.o", folder / "code"], check=True)
    code = (folder / "code").read_bytes()
    return [code[place : place + 32].ljust(32, b"\x90") for place in range(0, 32 * len(lines), 32)]


class Machine:
    """An x86 that tells what an instruction touches, and the same code and data in this process."""

    def __init__(self) -> None:
        self._maps = [mmap.mmap(-1, PAGES), mmap.mmap(-1, PAGES)]
        self.code, self.data = (ctypes.addressof(ctypes.c_char.from_buffer(each)) for each in self._maps)
        self._uc = unicorn.Uc(unicorn.UC_ARCH_X86, unicorn.UC_MODE_64)
        self._uc.mem_map(self.code, PAGES)
        self._uc.mem_map(self.data, PAGES)
        self._accesses: list[tuple[bool, int, int]] = []
        self._uc.hook_add(unicorn.UC_HOOK_MEM_READ | unicorn.UC_HOOK_MEM_WRITE, self._hear)

    def _hear(self, _uc: object, access: int, address: int, size: int, _value: int, _data: object) -> None:
        self._accesses.append((access == unicorn.UC_MEM_WRITE, address, size))

    def run(self, code: bytes, registers: list[int]) -> list[tuple[bool, int, int]]:
        """Run one instruction, and return its accesses: whether written, where, how many bytes."""
        self._maps[0][: len(code)] = code
        self._uc.mem_write(self.code, code)
        self._uc.mem_write(self.data, b"\x01" * PAGES)
        for number, value in zip(NUMBERS, registers, strict=True):
            self._uc.reg_write(number, value)
        self._accesses = []
        self._uc.emu_start(self.code, self.code + 32, count=1)
        return self._accesses

    def registers(self, base: str, index: str) -> list[int]:
        """Registers by which an operand lies in the data."""
        values = dict.fromkeys(REGISTERS, 0)
        values |= {"rax": 0x11, "rcx": 3, "rip": self.code, "rsp": self.data + 0x3000, "eflags": 2}
        if base:
            values[base] = self.data + 0x2000
        if index:
            values[index] = 0x20
        return [values[name] for name in REGISTERS]


def decoded(decoder: ctypes.CDLL, registers: list[int]) -> Touched:
    touched = decoder.touched_by_next((ctypes.c_longlong * 23)(*registers))
    assert isinstance(touched, Touched)
    return touched


def forms(text: str) -> list[str]:
    return [line.strip() for line in text.replace("\n", ";").split(";") if line.strip()]


@pytest.mark.parametrize(("group", "is_store"), [(READS, False), (STORES, True), (BOTH, False)])
def test_operands_in_memory_are_those_of_the_processor(
    tmp_path: Path, decoder: ctypes.CDLL, group: str, is_store: bool
) -> None:
    draw, machine = random.Random(1), Machine()
    cases = [(form, *each) for form in forms(group) for each in operands(draw)]
    lines = [form.replace("MA", "M").replace("M", memory) for form, memory, _, _ in cases]
    for (form, _, base, index), line, code in zip(cases, lines, assembled(tmp_path, lines), strict=True):
        registers = machine.registers(base, index)
        if "MA" in form and ("127(" in line or "rip" in line):
            continue  # not aligned
        try:
            accesses = machine.run(code, registers)
        except unicorn.UcError:
            assert form.startswith("div"), line  # by which the other operand is too large
            continue
        if form.startswith("push"):
            accesses = accesses[:1]
        first = min(address for _, address, _ in accesses)
        end = max(address + size for _, address, size in accesses)
        found = decoded(decoder, registers)
        assert (line, found.is_known, found.address, bool(found.is_store)) == (line, 1, first, is_store)
        assert (line, found.bytes) == (line, end - first)


def test_what_has_no_operand_in_memory(tmp_path: Path, decoder: ctypes.CDLL) -> None:
    machine = Machine()
    lines = [form.replace("M", "8(%rax)") for form in forms(NONE)]
    for line, code in zip(lines, assembled(tmp_path, lines), strict=True):
        machine._maps[0][: len(code)] = code
        found = decoded(decoder, machine.registers("rax", ""))
        assert (line, found.is_known, found.bytes) == (line, 1, 0)


def test_what_is_unknown(tmp_path: Path, decoder: ctypes.CDLL) -> None:
    machine = Machine()
    lines = [form.replace("M", "8(%rax)") for form in forms(UNKNOWN)]
    for line, code in zip(lines, assembled(tmp_path, lines), strict=True):
        machine._maps[0][: len(code)] = code
        found = decoded(decoder, machine.registers("rax", ""))
        assert (line, found.is_known) == (line, 0)
