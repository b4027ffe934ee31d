"""The compiler as builds of firmware call theirs."""

import sys
from pathlib import Path

import pytest

from aisrv.addons.firmware.cc import command
from aisrv.addons.firmware.compiler import mains
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from tests.support.benches.c_programs import need_32_bits, need_compiler
from tests.support.programs import run_process

CC = [sys.executable, "-m", "aisrv.addons.firmware.cc"]


def test_options_of_xmos_are_left_out() -> None:
    call = command("gcc", ["-target=XCORE-AI-EXPLORER", "-report", "-Os", "-c", "main.c", "-fxscope"])
    assert call[-3:] == ["-Os", "-c", "main.c"]
    assert not {"-report", "-fxscope", "-target=XCORE-AI-EXPLORER"} & set(call)


def test_what_it_links_is_the_program_of_a_tile(tmp_path: Path) -> None:
    need_compiler()
    (tmp_path / "main.c").write_text(
        "#include <xcore/hwtimer.h>\nint value(void);\n"
        "int main(void) { uint32_t t = get_reference_time(); delay_ticks(value());\n"
        "    return (int)(get_reference_time() - t); }\n"
    )
    (tmp_path / "value.c").write_text("int value(void) { return N; }\n")
    for name, options in (("main", ["-Os"]), ("value", ["-DN=37"])):
        done = run_process([*CC, *options, "-c", f"{tmp_path}/{name}.c", "-o", f"{tmp_path}/{name}.o"])
        assert (done.returncode, done.stderr) == (0, "")
    program = tmp_path / "program.xe"
    done = run_process([*CC, f"{tmp_path}/main.o", f"{tmp_path}/value.o", "-report", "-o", str(program)])
    assert (done.returncode, done.stderr) == (0, "")
    assert mains(program) == {"main": 0}
    assert run_whole_programs({0: program}, RunSettings()) == 38  # after 37 ticks, not at


def test_the_compilers_exit_code_and_words(tmp_path: Path) -> None:
    need_compiler()
    (tmp_path / "main.c").write_text("int main(void) { return nothing; }\n")
    done = run_process([*CC, "-c", f"{tmp_path}/main.c", "-o", f"{tmp_path}/main.o"])
    assert done.returncode == 1
    assert "main.c:1:25: error: " in done.stderr


def test_an_option_that_makes_other_programs_is_refused() -> None:
    done = run_process([*CC, "-mx32", "-c", "main.c"])
    reason = "-mx32: addresses of a tile's program have 64 bits, or with -m32 32\n"
    assert (done.returncode, done.stderr) == (1, reason)


def test_with_m32_what_it_links_has_32_bits(tmp_path: Path) -> None:
    need_32_bits(need_compiler())
    source, program = tmp_path / "main.c", tmp_path / "program.xe"
    source.write_text("int main(void) { return sizeof(long) + sizeof(void *); }\n")
    done = run_process([*CC, "-m32", str(source), "-o", str(program)])
    assert (done.returncode, done.stderr) == (0, "")
    assert run_whole_programs({0: program}, RunSettings()) == 8


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", "mycc")
    done = run_process([*CC, "-c", "main.c"])
    assert (done.returncode, done.stderr) == (1, "the compiler of CC, 'mycc', is not found\n")
