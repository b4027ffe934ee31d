"""A build of CMake's with the toolchain file."""

import shutil
from pathlib import Path

from aisrv.addons.firmware.toolchain import write_toolchain
from aisrv.addons.firmware.whole_program import RunSettings, run_whole_programs
from tests.support.benches.c_programs import need_compiler
from tests.support.programs import missing, run_process

PROJECT = """
cmake_minimum_required(VERSION 3.21)
project(drivers C)
if(${CMAKE_SYSTEM_NAME} STREQUAL XCORE_XS3A)
    add_library(driver STATIC driver.c)
endif()
add_executable(first main.c)
target_compile_definitions(first PRIVATE EXTRA=1)
target_compile_options(first PRIVATE -Os -target=XCORE-AI-EXPLORER)
target_link_options(first PRIVATE -report -target=XCORE-AI-EXPLORER)
target_link_libraries(first PRIVATE driver)
"""


def test_a_project_of_cmake_builds_programs_of_tiles(tmp_path: Path) -> None:
    need_compiler()
    cmake = shutil.which("cmake") or missing("cmake is not installed; .ci/packages does that")
    (tmp_path / "CMakeLists.txt").write_text(PROJECT)
    (tmp_path / "driver.c").write_text(
        "#include <xcore/lock.h>\nint driver(void) { lock_t l = lock_alloc();"
        " lock_free(l); return l != 0; }\n"
    )
    (tmp_path / "main.c").write_text("int driver(void);\nint main(void) { return 40 + driver() + EXTRA; }\n")
    build = tmp_path / "build"
    toolchain = f"-DCMAKE_TOOLCHAIN_FILE={write_toolchain()}"
    for call in ([cmake, "-S", str(tmp_path), "-B", str(build), toolchain], [cmake, "--build", str(build)]):
        done = run_process(call)
        assert (done.returncode, done.stderr) == (0, "")
    assert run_whole_programs({0: build / "first.xe"}, RunSettings()) == 42
