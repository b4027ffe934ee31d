"""Programs of 32 bits: their types are the chip's, and what is said where they can't be made."""

import re
import subprocess
from pathlib import Path
from random import Random

import pytest

from aisrv.addons.firmware.compiler import CompileError, Program, Unit, build
from aisrv.addons.firmware.word_size import INSTALL, INSTALL_CPP, WordSizeError, check_32_bits
from tests.support.benches.c_programs import need_32_bits, need_compiler, run_c

MEMBERS = (
    *("char", "short", "int", "long", "long long", "float", "double", "_Bool", "size_t", "ptrdiff_t"),
    *("void *", "int64_t", "uint16_t", "enum { A#, B# = 70000 }", "struct { char c; double d; }"),
    *("union { short s; long long l; }", "char [3]", "long long [2]", "unsigned : 3", "long long : 40"),
)


def _structures(random: Random) -> list[str]:
    """Return structures with members of all kinds."""
    names = []
    for number in range(40):
        members = []
        for place, kind in enumerate(random.choices(MEMBERS, k=8)):
            base, _, rest = kind.replace("#", f"{number}_{place}").partition(" [")
            base, colon, bits = base.partition(" :")
            members.append(f"{base} m{place}{'[' + rest if rest else ''}{colon}{bits};")
        names.append(f"struct s{number} {{ {' '.join(members)} }};")
    return names


def _measures(structures: list[str]) -> list[str]:
    """Return expressions of C: size and alignment of each structure, and where its members begin."""
    found = []
    for number, text in enumerate(structures):
        found += [f"sizeof(struct s{number})", f"_Alignof(struct s{number})"]
        plain = re.findall(r"(m\d)(?:\[\d\])?;", text)
        found += [f"offsetof(struct s{number}, {member})" for member in plain]
    return found


def test_structures_have_the_layout_of_the_chip_s(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """As clang knows it, which compiles for the XCORE, too; it lacks its C library, and so headers."""
    structures = _structures(Random(7))
    measures = _measures(structures)
    head = "#include <stddef.h>\n#include <stdint.h>\n" + "\n".join(structures)
    table = f"{head}\nconst unsigned measures[] = {{ {', '.join(measures)} }};\n"
    clang = need_compiler("clang")
    call = [clang, "--target=xcore", "-ffreestanding", "-funsigned-char", "-S", "-x", "c", "-", "-o", "-"]
    done = subprocess.run(call, input=table, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expected = re.findall(r"\.long\s+(\d+)", done.stdout)
    assert len(expected) == len(measures)
    text = f"""
    {table}
    int main(void) {{
        for (unsigned i = 0; i < sizeof measures / sizeof *measures; i++) printf("%u\\n", measures[i]);
        return 0;
    }}
    """
    assert run_c(tmp_path, text, bits=32) == 0
    assert capfd.readouterr().out.split() == expected


def test_floats_are_computed_in_32_bits(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    int main(void) {
        volatile float large = 1e30f;
        float product = large * large / large;
        printf("%g\\n", product);
        return 0;
    }
    """
    assert run_c(tmp_path, text, bits=32) == 0
    assert capfd.readouterr().out == "inf\n"


R11 = """
static uint32_t status(void) {
    uint32_t state;
    asm volatile("getsr r11, 3\\n mov %0, r11" : "=r"(state) : : "r11");
    return state;
}
int main(void) { asm volatile("setsr 2"); return (int)status(); }
"""


def test_a_clobbered_r11_is_not_for_gcc(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match="only clang compiles what names r11: CC=clang"):
        run_c(tmp_path, R11, bits=32)


@pytest.mark.long("clang as well as gcc")
def test_clang_compiles_a_clobbered_r11(tmp_path: Path) -> None:
    assert run_c(tmp_path, R11, compiler="clang", bits=32) == 2


TWO_CORES = """
    DECLARE_JOB(keeps, (chanend_t, unsigned));
    void keeps(chanend_t c, unsigned value) {
        uint32_t kept;
        if (value & 1) {
            asm volatile("ldc r11, 5\\n in %0, res[%1]\\n mov %0, r11" : "=&r"(kept) : "r"(c));
        } else {
            asm volatile("ldc r11, 6\\n out res[%1], %1\\n mov %0, r11" : "=&r"(kept) : "r"(c));
        }
        printf("%u keeps %u\\n", value, kept);
    }
    int main(void) {
        channel_t c = chan_alloc();
        PAR_JOBS(PJOB(keeps, (c.end_a, 1)), PJOB(keeps, (c.end_b, 2)));
        return 0;
    }
"""


def test_each_core_has_an_r11(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_c(tmp_path, TWO_CORES, bits=32) == 0
    assert sorted(capfd.readouterr().out.splitlines()) == ["1 keeps 5", "2 keeps 6"]


def _without(folder: Path, options: str) -> str:
    """Return a compiler that compiles nothing with options, a pattern of the shell."""
    path = folder / "gcc"
    path.write_text(f'#!/bin/sh\ncase " $* " in {options}) exit 1;; esac\nexec {need_compiler()} "$@"\n')
    path.chmod(0o755)
    return str(path)


def test_where_32_bits_are_missing_the_command_is_told(tmp_path: Path) -> None:
    source = tmp_path / "main.c"
    source.write_text("int main(void) { return 0; }\n")
    compiler = _without(tmp_path, '*" -m32 "*')
    subprocess.run([compiler, "-c", source, "-o", tmp_path / "main.o"], check=True)
    with pytest.raises(WordSizeError) as missing:
        build(Program((Unit((source,)),), bits=32), compiler)
    assert str(missing.value) == f"{compiler} finds no headers and libraries of 32 bits: {INSTALL}"


def test_where_the_library_of_cpp_is_missing_c_of_32_bits_is_there(tmp_path: Path) -> None:
    need_32_bits(need_compiler())
    compiler = _without(tmp_path, '*" -m32 "*" -lstdc++ "*')
    check_32_bits(compiler)
    with pytest.raises(WordSizeError) as missing:
        check_32_bits(compiler, is_cpp=True)
    assert str(missing.value) == f"{compiler} finds no library of C++ of 32 bits: {INSTALL_CPP}"


@pytest.mark.long("the runtime is compiled for this compiler alone")
def test_where_the_library_of_cpp_is_missing_its_command_is_told(tmp_path: Path) -> None:
    need_32_bits(need_compiler())
    for name in ("main.c", "main.cc"):
        (tmp_path / name).write_text("int main(void) { return 0; }\n")
    compiler = _without(tmp_path, '*" -m32 "*" -lstdc++ "*')
    build(Program((Unit((tmp_path / "main.c",)),), bits=32), compiler)
    with pytest.raises(WordSizeError) as missing:
        build(Program((Unit((tmp_path / "main.cc",)),), bits=32), compiler)
    assert str(missing.value) == f"{compiler} finds no library of C++ of 32 bits: {INSTALL_CPP}"


def test_where_32_bits_do_not_run(tmp_path: Path) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text('#!/bin/sh\nfor last; do :; done\nprintf "no program" >"$last"; chmod +x "$last"\n')
    compiler.chmod(0o755)
    with pytest.raises(WordSizeError, match=r"kernel runs no programs of 32 bits, .*Exec format"):
        check_32_bits(str(compiler))


def test_what_does_not_compile_is_told_by_the_compiler(tmp_path: Path) -> None:
    with pytest.raises(CompileError, match=r"nothing. undeclared"):
        run_c(tmp_path, "int main(void) { return nothing; }", bits=32)
