"""The work of Thumb instructions, each by its encoding in the architecture's manual."""

import pytest

from aisrv.addons.kernels.images.thumb import Work, work_of


@pytest.mark.parametrize(
    ("code", "instructions", "moved"),
    [
        pytest.param("", 0, 0, id="nothing"),
        pytest.param("7047", 1, 0, id="bx lr"),
        pytest.param("00bf00bf", 2, 0, id="nop; nop"),
        pytest.param("0868", 1, 4, id="ldr r0, [r1]"),
        pytest.param("0870", 1, 1, id="strb r0, [r1]"),
        pytest.param("0888", 1, 2, id="ldrh r0, [r1]"),
        pytest.param("8856", 1, 1, id="ldrsb r0, [r1, r2]"),
        pytest.param("0048", 1, 4, id="ldr r0, [pc]"),
        pytest.param("0098", 1, 4, id="ldr r0, [sp]"),
        pytest.param("30b5", 1, 12, id="push {r4, r5, lr}"),
        pytest.param("30bd", 1, 12, id="pop {r4, r5, pc}"),
        pytest.param("0fc9", 1, 16, id="ldmia r1!, {r0-r3}"),
        pytest.param("2de9f04f", 1, 36, id="push {r4-r11, lr}"),
        pytest.param("d1e90001", 1, 8, id="ldrd r0, r1, [r1]"),
        pytest.param("11f9010b", 1, 1, id="ldrsb r0, [r1], #1"),
        pytest.param("d1f80400", 1, 4, id="ldr.w r0, [r1, #4]"),
        pytest.param("dfe800f0", 1, 1, id="tbb [pc, r0]"),
        pytest.param("00fb0120", 1, 0, id="mla r0, r0, r1, r2"),
        pytest.param("00f000b8", 1, 0, id="b.w"),
        pytest.param("91ed000a", 1, 4, id="vldr s0, [r1]"),
        pytest.param("2ded028b", 1, 8, id="vpush {d8}"),
    ],
)
def test_work(code: str, instructions: int, moved: int) -> None:
    assert work_of(bytes.fromhex(code)) == Work(instructions, moved)
