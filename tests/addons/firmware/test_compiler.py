"""What is compiled and kept, what is refused, and the headers."""

import subprocess
from pathlib import Path

import pytest

from aisrv.addons.firmware.compiler import (
    CFLAGS,
    HERE,
    INCLUDE,
    RUNTIME,
    CompileError,
    Program,
    Unit,
    build,
    find_compiler,
    mains,
    runtime,
)
from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from aisrv.addons.firmware.word_size import word_size_options
from tests.support.benches.c_programs import compiled, need_32_bits, need_compiler, run_c


def program(folder: Path, text: str, name: str = "main.c") -> Program:
    (folder / name).write_text(text)
    return Program((Unit((folder / name,)),))


def test_a_program_is_compiled_once(tmp_path: Path) -> None:
    need_compiler()
    source = program(tmp_path, "int main(void) { return 1; }")
    first = build(source)
    stamp = first.stat().st_mtime_ns
    assert (build(source), first.stat().st_mtime_ns) == (first, stamp)


def test_a_changed_source_header_or_option_is_compiled_anew(tmp_path: Path) -> None:
    need_compiler()
    (tmp_path / "value.h").write_text("#define VALUE 1\n")
    main = program(tmp_path, '#include "value.h"\nint main(void) { return VALUE; }')
    unit = main.units[0]
    built = [build(main)]
    (tmp_path / "value.h").write_text("#define VALUE 2\n")
    built.append(build(main))
    built.append(build(Program((Unit(unit.sources, options=("-O3",)),))))
    built.append(build(Program((unit,), sanitize=("undefined",))))
    assert len(set(built)) == 4
    assert [run_whole_programs({0: each}, RunSettings()) for each in built[:2]] == [1, 2]


def test_boards_share_what_is_the_same_for_all() -> None:
    compiler = need_compiler()
    *shared, table = runtime(compiler, ["director"])
    *again, of_a_main = runtime(compiler)
    assert shared == again
    assert len(shared) == len(RUNTIME)
    assert table != of_a_main


def test_the_compiler_says_what_is_wrong(tmp_path: Path) -> None:
    need_compiler()
    with pytest.raises(CompileError, match=r"main\.c:1:\d+: error: .*undeclared"):
        build(program(tmp_path, "int main(void) { return nothing; }"))


def test_a_function_that_is_not_there_is_named_with_another(tmp_path: Path) -> None:
    need_compiler()
    text = "#include <xcore/chanend.h>\nint main(void) { chanend_set_network(1, 2); }"
    with pytest.raises(
        CompileError, match="chanend_set_network is not there on the host: there is one network"
    ):
        build(program(tmp_path, text))


def test_a_function_of_a_board_that_is_not_there(tmp_path: Path) -> None:
    need_compiler()
    main = program(tmp_path, "void other(void) {}")
    with pytest.raises(CompileError, match="undefined reference to `director'"):
        build(Program(main.units, ("director",)))


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("task.xc", "XC is not compiled here; write the task in C, or in Python"),
        ("fill.S", "assembly of the XS3 has no counterpart on the host; write that part in C"),
        ("fill.s", "assembly of the XS3 has no counterpart on the host; write that part in C"),
    ],
)
def test_other_languages_are_refused(tmp_path: Path, name: str, reason: str) -> None:
    need_compiler()
    with pytest.raises(CompileError) as refused:
        build(program(tmp_path, "", name))
    assert str(refused.value) == f"{tmp_path / name}: {reason}"


@pytest.mark.parametrize("option", ["-m32", "-m64", "-mx32"])
def test_an_option_for_other_addresses_names_the_setting(tmp_path: Path, option: str) -> None:
    need_compiler()
    main = program(tmp_path, "int main(void) {}")
    with pytest.raises(CompileError, match=f"^{option}: .* one size of addresses: `--bits 32` makes it 32"):
        build(Program((Unit(main.units[0].sources, options=("-O2", option)),)))


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    need_compiler()
    with pytest.raises(CompileError) as refused:
        build(Program((Unit((tmp_path / "none.c",)),)))
    assert str(refused.value) == f"{tmp_path / 'none.c'} is not there"


def test_without_a_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(
        FirmwareError, match="no C compiler is found: install gcc or clang, or name one in CC"
    ):
        find_compiler()
    monkeypatch.setenv("CC", "mycc")
    with pytest.raises(FirmwareError, match="the compiler of CC, 'mycc', is not found"):
        find_compiler()


def test_the_mains_of_a_program(tmp_path: Path) -> None:
    assert mains(compiled(tmp_path, "int main(void) {} void main_tile1(chanend_t c) {}")) == {
        "main": 0,
        "main_tile1": 2,
    }


def test_a_main_that_is_only_asked_for_is_none(tmp_path: Path) -> None:
    text = "int main_tile1(void) __attribute__((weak)); int main(void) { return main_tile1 ? 1 : 0; }"
    assert mains(compiled(tmp_path, text)) == {"main": 0}


def test_what_is_no_program_has_no_mains(tmp_path: Path) -> None:
    (tmp_path / "program").write_text("#!/bin/sh")
    with pytest.raises(FirmwareError, match="readelf"):
        mains(tmp_path / "program")


def test_pointers_fit_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        static int data;
        int main(void) {
            int local;
            void *places[] = {&data, &local, main, malloc(100), malloc(800 << 20)};
            for (int i = 0; i < 5; i++) if ((uintptr_t)places[i] >> 32) printf("%d ", i);
            puts("");
        }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out == "\n"


def test_a_char_has_no_sign(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    run_c(tmp_path, 'int main(void) { char c = 0xff; printf("0x%02x\\n", c); return 0; }')
    assert capfd.readouterr().out == "0xff\n"


@pytest.mark.parametrize(
    ("name", "bits", "level"),
    [
        ("gcc", 64, ("-fsyntax-only",)),
        *(
            pytest.param(
                name, bits, ("-O2",), marks=pytest.mark.long("the whole runtime, compiled once more")
            )
            for name in ("gcc", "clang")
            for bits in (64, 32)
        ),
    ],
)
def test_the_runtime_has_no_warnings(name: str, bits: int, level: tuple[str, ...], tmp_path: Path) -> None:
    from aisrv.addons.firmware.records import header

    if bits == 32:
        need_32_bits(need_compiler(name))
    (tmp_path / "verbs.h").write_text(header())
    options = (
        "-std=gnu11",
        "-D_GNU_SOURCE",
        *CFLAGS,
        *word_size_options(bits),
        f"-I{HERE}",
        f"-I{tmp_path}",
        "-Wall",
        "-Wextra",
        *level,
    )
    for source in RUNTIME:
        done = subprocess.run(
            [need_compiler(name), *options, "-c", str(HERE / source), "-o", str(tmp_path / "o")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.stderr == ""


@pytest.mark.parametrize(
    ("suffix", "compiler", "standard"),
    [
        ("c", "gcc", "gnu11"),
        pytest.param(
            "cc", "g++", "gnu++17", marks=pytest.mark.long("C++ as well as C; most are in C++ every day")
        ),
    ],
)
def test_every_header_stands_alone_in_c_and_cpp(
    tmp_path: Path, suffix: str, compiler: str, standard: str
) -> None:
    headers = sorted(path.relative_to(INCLUDE).as_posix() for path in INCLUDE.rglob("*.h"))
    assert len(headers) > 15
    for name in headers:
        source = tmp_path / f"one.{suffix}"
        source.write_text(f"#include <{name}>\n#include <{name}>\n")
        command = [need_compiler(compiler), f"-std={standard}", f"-I{INCLUDE}", "-fsyntax-only", str(source)]
        done = subprocess.run([*command, "-Wall", "-Werror"], capture_output=True, text=True, check=False)
        assert (name, done.stderr) == (name, "")
