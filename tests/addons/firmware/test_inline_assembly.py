"""Our assembler is called for sources with inline assembly alone."""

import subprocess
from pathlib import Path

import pytest

from aisrv.addons.firmware.cc import command
from aisrv.addons.firmware.inline_assembly import assembler_options, has_assembly
from tests.support.benches.c_programs import need_compiler


@pytest.mark.parametrize(
    ("text", "has"),
    [
        ('asm volatile("syncr res[%0]" : : "r"(p));', True),
        ('__asm__ __volatile__ ( "nop" );', True),
        ('asm goto volatile("waiteu" : : : : l);', True),
        ('asm("mkmsk %0, 5" : "=r"(a));', True),
        ('asm volatile("" ::: "memory");', False),
        ('extern int scanf(const char *) __asm__ ("" "__isoc99_scanf");', False),
        ('int plasma(const char *), x = plasma("a");', False),
        ("int main(void) { return 0; }", False),
    ],
)
def test_which_sources_have_inline_assembly(text: str, has: bool) -> None:
    assert has_assembly(text) is has


def test_what_has_none_is_assembled_without_python(tmp_path: Path) -> None:
    folder = Path(assembler_options(need_compiler(), tmp_path)[1])
    plain, ours = tmp_path / "plain.s", tmp_path / "ours.s"
    plain.write_text("\tnop\n")
    ours.write_text('#APP\n# 5 "a.c" 1\n\tbau %eax\n# 0 "" 2\n#NO_APP\n')
    script = (folder / "as").read_text().replace("exec '", "exec ").splitlines()
    python = script[-1].split()[1]
    (folder / "as").write_text("\n".join(script).replace(python, "/no/python"))
    for source, status in ((plain, 0), (ours, 127)):
        done = subprocess.run(
            [str(folder / "as"), "-o", "/dev/null", str(source)], capture_output=True, check=False
        )
        assert done.returncode == status, done.stderr


def test_clang_is_told_not_to_assemble_itself(tmp_path: Path) -> None:
    assert "-fno-integrated-as" in assembler_options("/usr/bin/clang", tmp_path)
    assert "-fno-integrated-as" not in assembler_options("/usr/bin/gcc", tmp_path)


def test_builds_of_cmake_have_it_where_they_assemble() -> None:
    compiler = need_compiler()
    assert "-B" in command(compiler, ["-c", "a.c"])
    assert "-B" in command(compiler, ["a.c", "-o", "a.xe"])
    assert "-B" not in command(compiler, ["-E", "a.c"])
