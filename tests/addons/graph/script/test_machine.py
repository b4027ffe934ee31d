import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.graph.binary.model import ScriptArc
from aisrv.addons.graph.script.instructions import Type
from aisrv.addons.graph.script.machine import ScriptMachine
from tests.addons.graph.script.scripts import NotedServices, code_of, machine_of, run


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("test_equ r1 5", True),
        ("test_equ r1 6", False),
        ("test_leq r1 5", True),
        ("test_leq r1 4", False),
        ("test_lt r1 6", True),
        ("test_lt r1 5", False),
        ("test_neq r1 6", True),
        ("test_neq r1 5", False),
        ("test_geq r1 5", True),
        ("test_geq r1 6", False),
        ("test_gt r1 4", True),
        ("test_gt r1 5", False),
        ("test_gt r1 #float 4.5", True),
        ("test_gt r1 #uint32 0xFFFFFFFF", False),
    ],
)
def test_tests_set_the_flag(test: str, holds: bool) -> None:
    ran = run(f"r1 = 5\n{test}\nif_yes r2 = 1\nif_no r3 = 1")
    assert (ran.value(2), ran.value(3)) == (int(holds), int(not holds))


@pytest.mark.parametrize(
    ("test", "holds"),
    [
        ("test_gt r1 sub r2 r3", True),  # 5 > 9 - 7
        ("test_gt r1 add r2 r3", False),
        ("test_equ r1 sub r2 4", True),
        ("test_lt r1 mul r2 #float 0.5", False),
        ("test_equ r1 norm r3 r4", False),
    ],
)
def test_tests_compare_with_what_the_alu_makes(test: str, holds: bool) -> None:
    ran = run(f"r1 = 5\nr2 = 9\nr3 = 7\n{test}\nif_yes r5 = 1")
    assert (ran.value(1), ran.value(2), ran.value(3), ran.value(5)) == (5, 9, 7, int(holds))


def test_mixed_signs_compare_mathematically() -> None:
    assert run("r1 = -1\ntest_lt r1 #uint32 1\nif_yes r2 = 1").value(2) == 1


def test_only_tests_set_the_flag() -> None:
    assert run("test_equ r1 0\nr1 = add r1 1\nif_yes r2 = 1").value(2) == 1


def test_the_flag_is_given_to_a_run() -> None:
    assert run("if_yes r2 = 1", flag=True).value(2) == 1
    assert run("if_yes r2 = 1", flag=False).value(2) == 0


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("add r1 3", -4),
        ("sub r1 3", -10),
        ("mul r1 3", -21),
        ("div r1 2", -3),
        ("div r1 0", 0),
        ("or r1 8", -7 | 8),
        ("nor r1 8", ~(-7 | 8)),
        ("and r1 12", -7 & 12),
        ("xor r1 8", -7 ^ 8),
        ("shr r1 1", -4),
        ("shr r1 33", -4),
        ("shl r1 4", -112),
        ("set r1 1", -7 | 2),
        ("clr r1 0", -8),
        ("max r1 3", 3),
        ("min r1 3", -7),
        ("amax r1 3", 7),
        ("amin r1 3", 3),
        ("addmod r1 3", -4),
        ("submod r1 3", -10),
    ],
)
def test_arithmetic_on_integers(operation: str, result: int) -> None:
    ran = run(f"r1 = -7\nr2 = {operation}")
    assert (ran.value(2), ran.kind(2)) == (result, Type.INT32)


def test_integers_wrap() -> None:
    assert run("r1 = 2147483647\nr2 = add r1 1").value(2) == -(1 << 31)


def test_two_unsigned_give_unsigned() -> None:
    ran = run("r1 = #uint8 200\nr2 = sub r1 #uint16 201")
    assert (ran.value(2), ran.kind(2)) == (0xFFFFFFFF, Type.UINT32)


def test_shr_of_unsigned_is_logical() -> None:
    assert run("r1 = #uint32 0x80000000\nr2 = shr r1 #uint8 31").value(2) == 1


@pytest.mark.parametrize(
    ("operation", "result"),
    [
        ("add r1 1", 3.5),
        ("sub r1 #float 0.5", 2.0),
        ("mul r1 #fp16 2", 5.0),
        ("div r1 2", 1.25),
        ("div r1 0", math.inf),
        ("mul r1 #float 3e38", math.inf),
        ("max r1 9", 9.0),
    ],
)
def test_a_float_on_one_side_gives_a_float(operation: str, result: float) -> None:
    ran = run(f"r1 = #float 2.5\nr2 = {operation}")
    assert (ran.value(2), ran.kind(2)) == (result, Type.FLOAT)


def test_floats_are_of_single_precision() -> None:
    assert run("r1 = #float 16777216\nr2 = add r1 1").value(2) == 16777216.0
    assert run("r1 = #float 0.1\nr2 = add r1 #float 0.2").value(2) == 0.30000001192092896


def test_bit_operations_truncate_floats_and_hold_them_at_the_ends() -> None:
    assert run("r1 = #float -7.9\nr2 = or r1 0").value(2) == -7
    assert run("r1 = #float 1e20\nr2 = or r1 0").value(2) == 0x7FFFFFFF
    assert run("r1 = #float -1e20\nr2 = or r1 0").value(2) == -0x80000000


def test_norm_shifts_until_bit_31_is_set() -> None:
    ran = run("r1 = 0x1234\nr2 = norm r1 r3")
    assert (ran.machine.registers[2].value, ran.value(3)) == (0x1234 << 19, 19)
    ran = run("r1 = 0\nr2 = norm r1 r3")
    assert (ran.value(2), ran.value(3)) == (0, 32)


def test_addmod_and_submod_stay_in_their_range() -> None:
    text = "r1 = 12\nset r1 base 10\nset r1 size 4\n"
    assert run(text + "r2 = addmod r1 3").value(2) == 11
    assert run(text + "r2 = submod r1 3").value(2) == 13


def test_a_type_relabels_the_bits() -> None:
    ran = run("r1 = -1\nset r1 type #uint8")
    assert (ran.value(1), ran.machine.registers[1].value) == (255, 0xFFFFFFFF)
    assert run("r1 = #uint32 0x3F800000\nset r1 #float").value(1) == 1.0
    assert run("r1 = 5\nset r1 typeptr #uint16").kind(1) == Type.UINT16


def test_a_move_takes_the_type_word_along() -> None:
    ran = run("set r1 base 7\nset r1 size 9\nr2 = r1")
    assert ran.machine.registers[2].type == 7 << 14 | 9 << 4 | Type.INT32


MEMORY = """
script_parameters 0
4 u8; 1 2 3 4
label P
1 u32; 0xA0B0C0D0
script_heap
8 u8; 0 0 0 0 0 0 0 0
label H
1 u32; 0"""


def test_loads_read_the_type_of_the_pointer() -> None:
    ran = run(
        "set r1 param P\nr2 = [ r1 ]\nset r1 #uint32\nr3 = [ r1 ]\nset r1 #int16\nr4 = [ r1 -3 ]" + MEMORY
    )
    assert ran.fault is None
    assert [ran.value(index) for index in (2, 3, 4)] == [0xD0, 0xA0B0C0D0, 0x302]


def test_pointers_are_updated_after_or_before_the_access() -> None:
    ran = run(
        "set r1 param P\nr1 = sub r1 4\nset r1 #uint8\nr2 = [ r1 ]+ 2\nr3 = [ r1 ]\nr4 = [ r1 1 ]+" + MEMORY
    )
    assert [ran.value(index) for index in (2, 3, 4)] == [1, 3, 4]
    assert ran.machine.registers[1].value == 3


def test_stores_write_the_heap_in_the_type_of_the_pointer() -> None:
    ran = run(
        "set r1 heap H\nset r1 #uint16\nr2 = 0x12345678\n[ r1 ]+ 2 = r2\n"
        "r3 = #float 1.0\nset r1 #uint8\n[ r1 ] = r3" + MEMORY
    )
    assert ran.fault is None
    assert bytes(ran.machine.heap[8:]) == b"\x78\x56\x01\x00"


def test_bits_are_inserted_and_extracted() -> None:
    ran = run("r5 = 0xFF\nr3 = 0\nr3 | 1 10 | = r5\nr4 = r3 | 3 5 |\nr6 = r3 | 0 31 |")
    assert [ran.value(index) for index in (3, 4, 6)] == [0x1FE, 7, 0x1FE]
    assert run("r1 = -1\nr2 = 0\nr1 | 4 7 | = r2").machine.registers[1].value == 0xFFFFFF0F


def test_registers_are_swapped() -> None:
    ran = run("r1 = 1\nr2 = #float 2.0\nswap r1 r2")
    assert (ran.value(1), ran.value(2)) == (2.0, 1)


def test_sp1_pushes_and_pops_and_sp0_is_the_top() -> None:
    ran = run("sp1 = 1\nsp1 = 2\nr1 = sp0\nr2 = sp1\nr3 = sp0")
    assert [ran.value(index) for index in (1, 2, 3)] == [2, 2, 1]
    assert ran.stack == [1]


def test_sp0_of_an_empty_stack_is_its_first_place() -> None:
    ran = run("sp0 = 7\nr1 = sp0")
    assert (ran.value(1), ran.stack) == (7, [])


def test_operands_act_from_right_to_left() -> None:
    ran = run("sp1 = 10\nsp1 = 3\nr1 = sub sp1 sp1")
    assert ran.value(1) == 10 - 3


def test_places_of_the_stack_are_deleted() -> None:
    ran = run("sp1 = 1\nsp1 = 2\nsp1 = 3\ndelete r1 2")
    assert (ran.stack, ran.value(1)) == ([1], 3)
    assert run("sp1 = 1\nsp1 = 2\ndelete 1").stack == [1]


def test_jumps_go_to_labels_and_push_what_they_are_given() -> None:
    ran = run("r1 = 8\njump A r1\nr2 = 1\nlabel A\nr3 = 1")
    assert (ran.value(2), ran.value(3), ran.stack) == (0, 1, [8])


def test_banz_counts_down() -> None:
    ran = run("r1 = 3\nlabel A\nr2 = add r2 10\nbanz A r1")
    assert (ran.value(1), ran.value(2)) == (0, 30)


def test_a_call_pushes_operands_and_address_and_returns() -> None:
    ran = run("r1 = 5\nr2 = 6\ncall F r1 r2\nr4 = 1\njump E\nlabel F\nr3 = sp0\nreturn\nlabel E")
    assert (ran.value(3), ran.value(4), ran.stack) == (3, 1, [5, 6])


def test_registers_are_saved_and_restored() -> None:
    text = "r1 = 1\nr2 = 2\nr3 = 3\nr4 = 4\nr5 = 5\nsave r1 r2 r3 r4 r5\n"
    assert run(text).stack == [1, 2, 3, 4, 5]
    ran = run(text + "r1 = 0\nr5 = 0\nrestore r1 r2 r3 r4 r5")
    assert [ran.value(index) for index in range(1, 6)] == [1, 2, 3, 4, 5]
    assert ran.stack == []


def test_return_ends_the_run() -> None:
    assert run("return\nr1 = 1").value(1) == 0


def test_the_position_of_a_node_is_a_number() -> None:
    code = code_of("set r2 graph arm_stream_filter_0\nreturn")
    code.words[code.nodes[0].at] = 0x22
    machine = ScriptMachine(code.words, ScriptArc(registers=7, stack=6, buffer_words=26), NotedServices())
    assert machine.run() is None
    assert (machine.registers[2].value, machine.registers[2].kind) == (0x22, Type.UINT32)


def test_service_of_nodes() -> None:
    ran = run("r2 = 34\nr0 = 0x412\nset r3 param P\nsp0 = 1\ncallsys 1 r2 r0 r3 sp0\nr4 = sp0" + MEMORY)
    assert ran.fault is None
    assert ran.services.calls == [("node", 34, 0x412, b"\xd0")]
    assert ran.value(4) == 3


def test_service_of_arcs_writes_and_reads() -> None:
    ran = run("r1 = 4\nr2 = 8\nset r3 param P\nr4 = 2\ncallsys 2 r1 r2 r3 r4" + MEMORY)
    assert ran.services.calls == [("arc", 4, 8, b"\xd0\xc0")]
    ran = run("r1 = 4\nr2 = 9\nset r3 heap H\nr4 = 4\ncallsys 2 r1 r2 r3 r4" + MEMORY)
    assert bytes(ran.machine.heap[8:]) == b"\x01\x02\x03\x04"


def test_service_of_the_application() -> None:
    ran = run("r1 = 1\nr2 = -2\nr3 = 3\nr4 = 4\ncallsys 3 r1 r2 r3 r4\ncallsys 3 r1")
    assert ran.services.calls == [("application", 1, -2, 3, 4), ("application", 1, 0, 0, 0)]


def test_service_of_io_settings() -> None:
    ran = run("r1 = 0\nr2 = 3\nset r3 heap H\nr4 = 4\ncallsys 4 r1 r2 r3 r4" + MEMORY)
    assert ran.services.calls == [("io", 0, 3, bytes(4))]
    assert bytes(ran.machine.heap[8:]) == b"\x01\x02\x03\x04"


def test_service_of_time() -> None:
    ran = run("r1 = 43\ncallsys 9 r1 r2 r3")
    assert ran.services.calls == [("time", 43)]
    assert (ran.value(2), ran.value(3)) == (0x11, 0x22)


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    [
        ("r7 = 1", "register", "r7 of 6"),
        ("r1 = r11", "register", "r11 of 6"),
        ("set sp1 #uint8", "register", "the type of sp1 cannot be set"),
        ("r1 = sp1", "stack", "the stack is empty"),
        ("sp1 = 1\nsp1 = 1\nsp1 = 1", "stack", "the stack has 2 places"),
        ("delete 1", "stack", "1 places of 0 cannot be deleted"),
        ("restore r1", "stack", "the stack is empty"),
        ("r1 = [ r2 ]", "memory", "bytes 0 to 4 of 0 of the parameters"),
        (
            "set r1 heap H\nr1 = [ r1 4 ]\nscript_heap\nlabel H\n1 u8; 0",
            "memory",
            "bytes 4 to 5 of 4 of the heap",
        ),
        (
            "set r1 param P\n[ r1 ] = r2\nscript_parameters 0\nlabel P\n1 u8; 0",
            "memory",
            "parameters cannot be written",
        ),
        (
            "set r1 param P\nr2 = 9\nr3 = 1\ncallsys 2 r0 r2 r1 r3\nscript_parameters 0\nlabel P\n1 u8; 0",
            "memory",
            "parameters cannot be written",
        ),
        (
            "r1 = -1\nset r2 heap H\ncallsys 2 r0 r0 r2 r1\nscript_heap\nlabel H\n1 u8; 0",
            "memory",
            "bytes 0 to -1",
        ),
        ("callsys 15 r2 r3 r4", "service", "unknown service 15"),
        ("r1 = 40\ncallsys 9 r1 r2 r3", "service", "unknown time format 40"),
        ("1 h32; C0000000", "opcode", "condition 3"),
        ("1 h32; 3D000800", "opcode", "OPAR 20 of OP 7"),
        ("1 h32; 35000000", "opcode", "unknown operation 20"),
        ("1 h32; 38000809", "opcode", "unknown type 9"),
        ("1 h32; 3B733000", "opcode", "a constant is missing"),
        ("1 h32; 3A4408A0", "opcode", "bits 32 to 34"),
        ("label A\njump A", "limit", "more than 1000 instructions"),
        ("1 h32; 3B733FFF", "memory", "the code has words 0 to 1, not 2047"),
    ],
)
def test_faults_end_the_run_and_say_where(text: str, kind: str, message: str) -> None:
    ran = run(text, registers=5 + 1, stack=2)
    assert ran.fault is not None
    assert ran.fault.kind == kind
    assert ran.fault.text.startswith(message)


def test_a_fault_has_the_word_and_its_index() -> None:
    ran = run("r1 = 70000\ncallsys 15 r2 r3 r4")
    assert ran.fault is not None
    assert (ran.fault.at, ran.fault.word) == (2, 0x3C08D30F)


def test_a_run_starts_anew_but_registers_and_heap_stay() -> None:
    machine = machine_of("r1 = add r1 1\nsp1 = 1\ntest_equ r1 r1\nreturn")
    assert machine.run() is None
    assert machine.run() is None
    assert (machine.registers[1].value, machine.depth) == (2, 1)
    machine.reset()
    assert machine.registers[1].value == 0


def test_a_caller_gives_r0_and_r1() -> None:
    machine = machine_of("r2 = add r0 r1\nreturn")
    machine.run(r0=4, r1=0x22)
    assert machine.registers[2].value == 0x26


def test_long_constants_of_the_public_compiler_decode_as_short() -> None:
    words = [0x30080814, 0x3CC00800]
    machine = ScriptMachine(words, ScriptArc(registers=7, stack=6, buffer_words=26), NotedServices())
    assert machine.run() is None
    assert machine.registers[2].value == 20


ARC = ScriptArc(registers=13, stack=6, buffer_words=42)


@given(st.lists(st.integers(0, 0xFFFFFFFF), max_size=40))
def test_random_words_end_with_or_without_a_fault(words: list[int]) -> None:
    fault = ScriptMachine(words, ARC, NotedServices()).run()
    assert fault is None or fault.text


def test_random_instructions_end_with_or_without_a_fault() -> None:
    generator = random.Random(18)
    for _ in range(500):
        words = [
            generator.choice((0, 1, 2)) << 30 | generator.randrange(48, 64) << 24 | generator.getrandbits(24)
            for _ in range(20)
        ]
        fault = ScriptMachine(words, ARC, NotedServices()).run()
        assert fault is None or fault.kind in ("register", "stack", "memory", "opcode", "service", "limit")
