"""Following the commands in a host's transfers, in both protocols."""

import pytest

from aisrv.addons.captures.replay.commands import AisrvFollower, IoserverFollower, Mask


def test_before_the_first_command() -> None:
    for follower in (AisrvFollower(), IoserverFollower()):
        assert (str(follower), follower.count) == ("before the first command", 0)


@pytest.mark.parametrize(
    ("command", "name", "masks"),
    [
        (b"\x10\0\0", "GET_ID of engine 0, tensor 0", [Mask.NOTHING, Mask.NOTHING]),
        (b"\x05\x01\x02", "GET_OUTPUT_TENSOR of engine 1, tensor 2", [Mask.NOTHING]),
        (b"\x09\0\0", "GET_TIMINGS of engine 0, tensor 0", [Mask.DATA, Mask.DATA]),
        (b"\x0f\0\0", "GET_DEBUG_LOG of engine 0, tensor 0", [Mask.LENGTH, Mask.REST, Mask.REST]),
        (b"\x18\0\0", "GET_PROFILE of engine 0, tensor 0", [Mask.LENGTH, Mask.REST]),
        (b"\x09".ljust(12, b"\0"), "GET_TIMINGS of engine 0, tensor 0", [Mask.NOTHING, Mask.DATA]),
        (b"\x0f".ljust(12, b"\0"), "GET_DEBUG_LOG of engine 0, tensor 0", [Mask.NOTHING, Mask.LENGTH]),
    ],
)
def test_answers_of_the_ai_server(command: bytes, name: str, masks: list[Mask]) -> None:
    follower = AisrvFollower()
    follower.sent(command)
    assert str(follower) == name
    assert [follower.answered() for _ in masks] == masks


@pytest.mark.parametrize("data", [[b"\x10\0\0"], [bytes(512), b""], [bytes(512), b"\x10\0\0"]])
def test_data_of_a_set_are_no_commands(data: list[bytes]) -> None:
    follower = AisrvFollower()
    follower.sent(b"\x83\0\0")
    for each in data:
        follower.sent(each)
    assert (str(follower), follower.count) == ("SET_INPUT_TENSOR of engine 0, tensor 0", 1)
    follower.sent(b"\x10\0\0")
    assert follower.count == 2


def test_after_a_restart_a_command_is_expected() -> None:
    follower = AisrvFollower()
    follower.sent(b"\x83\0\0")
    follower.restart()
    follower.sent(b"\x10\0\0")
    assert str(follower) == "GET_ID of engine 0, tensor 0"


@pytest.mark.parametrize("data", [b"\x10\0", b"\x10\0\0\0", bytes(11), bytes(13), bytes(64)])
def test_packets_that_are_no_command_are_passed_over(data: bytes) -> None:
    follower = AisrvFollower()
    follower.sent(data)
    assert follower.count == 0


def test_ioserver() -> None:
    follower = IoserverFollower()
    names = []
    for data in (
        b"\x03\x01\x02",
        bytes(512),
        b"\x01\0\0",
        b"\x01\0\0",
        b"\x01\0\0",
        b"\x02\0\x01",
        b"\x63\0\0",
    ):
        follower.sent(data)
        names.append(str(follower))
    assert names == [
        "TENSOR_RECV_INPUT of model 1, tensor 2",
        "TENSOR_RECV_INPUT of model 1, tensor 2",
        "TENSOR_RECV_INPUT of model 1, tensor 2",  # the data's short packet
        "INVOKE of model 0, tensor 0",
        "INVOKE of model 0, tensor 0",  # the packet that is dropped
        "TENSOR_SEND_OUTPUT of model 0, tensor 1",
        "command 0x63 of model 0, tensor 0",
    ]
    assert (follower.count, follower.answered()) == (4, Mask.NOTHING)
