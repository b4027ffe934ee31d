import pytest

from aisrv.addons.graph.errors import TextError
from aisrv.addons.graph.script.line import form_of, tokens_of
from aisrv.addons.graph.script.public_line import PublicLine
from aisrv.addons.graph.script.table import FORMS, code_length
from tests.addons.graph.script.scripts import code_of, words_of

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


# The words of the public compiler, of the commit that tests/golden/graph/README.md names.
COMPAT = {
    "r1 = 5": [0x30040805],
    "r1 = #int16 5": [0x30040805],
    "r1 = #int16 -2017": [0x30040812, 0xFFFFF81F],
    "r1 = #uint8 70000": [0x30040810, 0x00011170],
    "r1 = #fp16 1": [0x30040815, 0x3F800000],
    "r1 = #fp16 1.5": [0x30040815, 0x3FC00000],
    "r1 = #float 1": [0x30040816, 0x3F800000],
    "r1 = #float 1.5": [0x30040816, 0x3FC00000],
    "r1 = #float 5000": [0x30040816, 0x459C4000],
    "r1 = #int16 1.5": [0x30040801],
    "r1 = #uint8 1.5": [0x30040801],
    "r1 = #uint32 0xFFFFFFFF": [0x300407FF],
    "r1 = #time32 7": [0x30040807],
    "r1 = #time32 7000": [0x30040817, 0x00001B58],
    "r1 = 5000": [0x30040814, 0x00001388],
    "swap r1 r2": [0x3AC48000],
    "banz AAA r1": [0x3B8737FF],
    "banz AAA r1 r2": [0x3B84B7FF],
    "save r1": [0x3C47300C],
    "save r1 r2": [0x3C44B00C],
    "save r1 r2 r3": [0x3C44B003],
    "save r1 r2 r3 r4": [0x3C44B003],
    "save r1 r2 r3 r4 r5": [0x3C449143],
    "restore r1": [0x3C87300C],
    "restore r1 r2 r3 r4": [0x3C84B003],
    "set r1 type #ptr": [0x38040808],
    "set r1 type #ptr28": [0x38040804],
    "set r1 type #ptruint8": [0x38040800],
    "set r1 type #ptruint16": [0x38040801],
    "set r1 type #ptrint16": [0x38040802],
    "set r1 type #ptruint32": [0x38040803],
    "set r1 type #ptrint32": [0x38040804],
    "set r1 type #ptrfp16": [0x38040805],
    "set r1 type #ptrfloat": [0x38040806],
    "set r1 type #ptrtime32": [0x38040804],
    "set r1 typeptr #uint8": [0x38440800],
    "set r1 typeptr #ptrfloat": [0x38440806],
    "set r1 type #float": [0x38040806],
    "set r1 type #time32": [0x38040807],
    "set r1 #uint8": [0x38040804],
    "r1 | 40 50 | = r2": [0x3A448CA8],
    "r1 = r2 | 33 63 |": [0x3A848FE1],
    "r1 | 5 2 | = r2": [0x3A448085],
    "[ r1 ]+ 5000 = r2": [0x39C4A814, 0x00001388],
    "[ r1 ]+ r3 = r2": [0x39C4A003],
    "[ r1 ] 4 = r2": [0x39C48804],
    "[ r1 ] = r2": [0x39C48800],
    "[ r1 4 ] = r2": [0x39C49804],
    "[ r1 4 ]+ = r2": [0x39C4B804],
    "[ r1 r3 ] = r2": [0x39C49003],
    "[ r1 5000 ] = r2": [0x39C49814, 0x00001388],
    "r2 = [ r1 ]+ 5000": [0x3A086814, 0x00001388],
    "r2 = [ r1 ]+ r3": [0x3A086003],
    "r2 = [ r1 ] 4": [0x3A084804],
    "r2 = [ r1 r3 ]": [0x3A085003],
    "r2 = [ r1 5000 ]": [0x3A085814, 0x00001388],
    "r2 = [ r1 5000 ]+": [0x3A087814, 0x00001388],
    "delete r1 2": [0x3B040802],
    "delete r1 3000": [0x3B040814, 0x00000BB8],
    "delete r1 r2": [0x3B040002],
    "jump AAA r1": [0x3B4737FF],
    "jump AAA r1 r2": [0x3B44B7FF],
    "call AAA": [0x3BF337FF],
    "call AAA r1 r2": [0x3BC4B7FF],
    "test_gt r1 sub r2 r3": [0x28848003],
    "test_gt r1 sub r2 3": [0x28848803],
    "test_equ r1 add r2 5000": [0x00448814, 0x00001388],
    "test_gt r1 #float 1.5": [0x28040816, 0x3FC00000],
    "test_lt r1 #uint8 3": [0x10040803],
    "set r1 base 10": [0x3884080A],
    "set r1 base r2": [0x38840002],
    "set r1 base 5000": [0x38840814, 0x00001388],
    "set r1 size 12": [0x38C4080C],
    "set r1 param BBB": [0x39040014, 0x00000001],
    "callsys 11": [0x3C33330B],
    "callsys 1 r1": [0x3C073301],
    "callsys 15 r2 r3 r4": [0x3C08D30F],
    "r1 = add r2 #uint8 4": [0x30448804],
    "r1 = add r2 #uint8 4000": [0x30448810, 0x00000FA0],
    "r1 = norm r2 r3": [0x34448003],
}


@pytest.mark.parametrize("line", COMPAT)
def test_compat_words_are_those_of_the_public_compiler(line: str) -> None:
    text = f"label AAA\nr0 = 1\n{line}\nreturn\nscript_parameters 0\n1 u8; 1\nlabel BBB\n1 u8; 2"
    assert code_of(text, PublicLine).words[1:-1] == COMPAT[line]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("test_gt r1 sub r2 r3", [0x28848003]),
        ("test_equ r1 add r2 5000", [0x00448014, 5000]),
        ("test_lt sp0 and r2 #uint8 7", [0x11F88010, 7]),
    ],
)
def test_tests_take_operations_of_the_alu(line: str, words: list[int]) -> None:
    assert words_of(line) == words


def test_every_instruction_of_the_table_has_its_word_above() -> None:
    lines = [*ENCODED, *COMPAT, "jump AAA", "set r1 #heap AAA", "set r1 #param AAA", "set r1 #graph AAA"]
    lines += [f"set r1 {block} AAA" for block in ("param", "heap", "graph")]
    told = {form_of(tokens_of(line)) for line in lines if not line.startswith("if_")}
    assert [form.text for form in FORMS if form not in told] == []


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
