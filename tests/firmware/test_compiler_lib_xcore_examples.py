"""The examples of lib_xcore as they are: each becomes a program of a tile.

They are no part of this project: `AISRV_XMOS_SOURCES` names a folder with `lib_xcore_c`, a checkout of the
branch `libxcore` of github.com/McCrea/lib_xcore_c, whose headers are those that XMOS's tools have today.
"""

import pytest

from aisrv.firmware.compiler import Program, Unit, build
from tests.support.amounts import some
from tests.support.c_programs import need_compiler
from tests.support.xmos_sources import xmos_checkout

EXAMPLES = (
    "assert",
    "chanend_ct",
    "channel",
    "custom_select",
    "fpointer",
    "hello_world_pfunc",
    "hello_world_pjob",
    "hello_world_thread_group",
    "hello_world_threads",
    "internal_stack_size",
    "internal_stack_size_pfunc",
    "interrupt",
    "lock",
    "nested_pjobs",
    "nested_selects",
    "port_condition",
    "port_invert_peek",
    "timer_wait",
)
OF_THEIR_HEADERS = "internal_meta_macro"
"""Tests macros of theirs that no program is to use."""


def test_all_examples_are_here() -> None:
    found = {path.stem for path in (xmos_checkout("lib_xcore_c") / "examples").glob("*.c")}
    assert found == {*EXAMPLES, OF_THEIR_HEADERS}


@pytest.mark.in_full
@pytest.mark.parametrize("compiler", some(["gcc", "clang"], every_day=1))
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_compiles(name: str, compiler: str) -> None:
    source = xmos_checkout("lib_xcore_c") / "examples" / f"{name}.c"
    build(Program((Unit((source,), options=("-w",)),)), need_compiler(compiler))
