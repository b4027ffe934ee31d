import pytest

from aisrv.graph.errors import TextError
from aisrv.graph.script.instructions import code_length
from tests.graph.script.scripts import code_of, words_of

# COND 31:30, OP 29:27, OPAR 26:22, DST 21:18, SRC1 17:14, then K12 or registers: from the format's page.
ENCODED = {
    "test_equ r1 5": [0x00040805],
    "test_eq r1 5": [0x00040805],
    "test_leq r1 r2": [0x08040002],
    "test_lt r1 -1": [0x100407FF],
    "test_neq r1 sp0": [0x1804000E],
    "test_geq r1 sp1": [0x2004000F],
    "test_gt r1 1": [0x28040801],
    "r5 =  0xFF": [0x301408FF],
    "r2 = r3": [0x30080003],
    "r2 = 2047": [0x30080FFF],
    "r2 = -2016": [0x30080020],
    "r2 = 2048": [0x30080014, 2048],
    "r2 = -2017": [0x30080014, 0xFFFFF81F],
    "r2 = #float 1.5": [0x30080016, 0x3FC00000],
    "r2 = #uint8 255": [0x30080010, 255],
    "r2 = #fp16 1": [0x30080015, 0x3C00],
    "sp0 = 1": [0x30380801],
    "sp1 = 1": [0x303C0801],
    "sp = 1": [0x30380801],
    "r1 = add r2 3": [0x30448803],
    "r1 = sub r2 3": [0x30848803],
    "r1 = mul r2 3": [0x30C48803],
    "r1 = div r2 3": [0x31048803],
    "r1 = or r2 3": [0x31448803],
    "r1 = nor r2 3": [0x31848803],
    "r1 = and r2 3": [0x31C48803],
    "r2 = xor r2 r3": [0x32088003],
    "r1 = shr r2 3": [0x32448803],
    "r1 = shl r2 3": [0x32848803],
    "r1 = set r2 3": [0x32C48803],
    "r1 = clr r2 3": [0x33048803],
    "r1 = max r2 3": [0x33448803],
    "r1 = min r2 3": [0x33848803],
    "r1 = amax r2 3": [0x33C48803],
    "r1 = amin r2 3": [0x34048803],
    "r1 = norm r2 r3": [0x34448003],
    "r1 = addmod r2 3": [0x34848803],
    "r1 = submod r2 3": [0x34C48803],
    "set r0 type #uint32": [0x38000803],
    "set r0 type uint8": [0x38000800],
    "set r0 #int16": [0x38000802],
    "set r0 typeptr #ptr28": [0x38400808],
    "set r0 base 1023": [0x38800BFF],
    "set r0 size r1": [0x38C00001],
    "[ r3 ] = r2": [0x39CC8800],
    "[ r3 ]+ 1 = r2": [0x39CCA801],
    "[ r3 4 ]+ = r2": [0x39CCB804],
    "[ r3 4 ] = r2": [0x39CC9804],
    "r2 = [ r0 ]": [0x3A080800],
    "r2 = [ r0 ]+ 4": [0x3A082804],
    "r2 = [r0 -4]+": [0x3A0837FC],
    "r3 | 1 10 | = r5": [0x3A4D4281],
    "r4 = r3 | 3 5 |": [0x3A90C143],
    "swap r1 r2": [0x3AC48800],
    "delete 2": [0x3B300802],
    "delete r1 2": [0x3B040802],
    "callsys 11": [0x3C33330B],
    "callsys 1 r2 r0 r3 sp0": [0x3C080F81],
    "callsys 15 r2 r3 r4": [0x3C08D30F],
    "save r1": [0x3C47330C],
    "save r1 r2 r3 r4 r5": [0x3C449143],
    "restore r1 r2": [0x3C84B30C],
    "return": [0x3CC00800],
    "if_yes return": [0x7CC00800],
    "if_no return": [0xBCC00800],
    "if_not return": [0xBCC00800],
}


@pytest.mark.parametrize("line", ENCODED)
def test_each_instruction_has_its_word(line: str) -> None:
    assert words_of(line) == ENCODED[line]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("r2 = -9000", [0x30080814, 0xFFFFDCD8]),
        ("set r0 type uint32", [0x38000804]),
        ("save r1", [0x3C440000]),
        ("restore r1 r2", [0x3C848000]),
    ],
)
def test_compat_words(line: str, words: list[int]) -> None:
    assert words_of(line, compat=True) == words


def test_jumps_count_from_their_own_word() -> None:
    code = code_of("label A\nr0 = 5000\njump A\nbanz A r1\ncall B r2 r3\nreturn\nlabel B\nreturn")
    assert code.words[2:5] == [0x3B733000 | (2048 - 2), 0x3B873000 | (2048 - 3), 0x3BC8F000 | (2048 + 2)]


def test_labels_of_parameters_and_heap_are_byte_offsets() -> None:
    code = code_of(
        "set r1 param P\nset r2 heap H\nset r3 #heap H\nreturn\n"
        "script_parameters 3\n1 u8; 7\nlabel P\n1 u16; 0x809\nscript_heap\n3 u32; 0 0 0\nlabel H\n1 u8; 0"
    )
    assert code.words == [0x39040014, 1, 0x39480014, 12, 0x394C0014, 12, 0x3CC00800]
    assert code.parameters == b"\x07\x09\x08"
    assert code.heap_bytes == 13


def test_a_position_of_a_node_is_left_open() -> None:
    code = code_of("set r2 graph arm_stream_filter_1")
    assert [(each.name, each.at) for each in code.nodes] == [("arm_stream_filter_1", 1)]


def test_data_of_32_bits_are_words_of_the_code() -> None:
    assert words_of("2 h32; 3CC00800 12345678") == [0x3CC00800, 0x12345678]


def test_data_of_16_bits_are_opaque_codes() -> None:
    code = code_of("2 h16; 2002 0001\n1 h16; C000")
    assert (code.format, code.words) == (1, [0x00012002, 0x0000C000])


def test_code_ends_where_its_flow_ends() -> None:
    assert code_length([0x3CC00800, 1, 2]) == 1
    assert code_length([0x7CC00800, 0x3CC00800, 2]) == 2
    assert code_length(code_of("jump A\nlabel B\nreturn\nlabel A\nr0 = 70000\njump B").words + [0] * 3) == 5
    assert code_length([]) == 0


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("retrun", "unknown instruction 'retrun'; did you mean return?"),
        ("r12 = 1", "unknown instruction 'r12'; did you mean r"),
        ("r1 = r12", "unknown operation 'r12'"),
        ("r1 = add r2", "the instruction ends too early"),
        ("r1 = 1.5", "'1.5' is neither a register nor a literal of type int32"),
        ("r1 = #uint8 256", "'256' does not fit uint8"),
        ("r1 = #unt8 1", "unknown type '#unt8'; did you mean uint8?"),
        ("r1 = 99999999999", "'99999999999' does not fit int32"),
        ("r1 = #float 1e39", "'1e39' does not fit float"),
        ("r1 | 5 4 | = r2", "the lower bit, 5, is above the upper one, 4"),
        ("r1 | 5 32 | = r2", "a bit is 0 to 31, not '32'"),
        ("[ r1 ]+ 2048 = r2", "an offset is -2016 to 2047, not '2048'"),
        ("[ r1 2 ; = r2", "the instruction ends too early"),
        ("callsys 64", "a service is 0 to 63, not '64'"),
        ("set r1 kind", "unknown setting 'kind'"),
        ("r1 = norm r2 3", "norm has a register and a register for the count"),
        ("swap r1 5", "'5' is not a register"),
        ("jump NOWHERE", "no label 'NOWHERE' in the code"),
        ("set r1 param NOWHERE", "no label 'NOWHERE' in the parameters"),
        ("r1 2", "expected =, not '2'"),
    ],
)
def test_wrong_lines_are_refused_with_their_place(line: str, message: str) -> None:
    with pytest.raises(TextError) as caught:
        code_of(f"r0 = 1\n{line}\nreturn")
    assert str(caught.value).startswith(f"script.txt:4: error: {message}")


def test_a_label_twice_is_refused() -> None:
    with pytest.raises(TextError, match=r"script\.txt:4: error: label 'A' exists already"):
        code_of("label A\nlabel A\nreturn")


def test_a_label_too_far_away_is_refused() -> None:
    far = "\n".join(["r0 = 1"] * 2100)
    with pytest.raises(TextError, match="too far away"):
        code_of(f"jump A\n{far}\nlabel A\nreturn")
