"""The token buffer, without any end or task: runs are the same stream as a plain list of tokens."""

from hypothesis import given
from hypothesis import strategies as st

from aisrv.xcore.channels.tokenbuffer import TokenBuffer
from aisrv.xcore.tokens import Run
from tests.support.benches.simulation import Token, tokens

actions = st.one_of(
    st.tuples(st.just("push"), st.binary(min_size=1, max_size=12) | st.integers(0, 191)),
    st.tuples(st.sampled_from(("take", "run", "withdraw")), st.integers(1, 12)),
)


@given(program=st.lists(actions, max_size=40))
def test_a_buffer_is_a_list_of_tokens(program: list[tuple[str, Run | int]]) -> None:
    buffer, expected = TokenBuffer(), list[Token]()
    for action, argument in program:
        if action == "push":
            buffer.push(argument)
            expected += tokens(argument)
        elif isinstance(argument, bytes):
            raise AssertionError
        elif action == "withdraw":
            buffer.withdraw_past(argument)
            del expected[argument:]
        elif action == "run":
            taken = buffer.take_run(argument)
            assert len(taken) in (0, argument)
            assert tokens(taken) == expected[: len(taken)]
            del expected[: len(taken)]
        elif expected and expected[0].control:
            buffer.take_control()
            del expected[0]
        elif expected:
            taken = buffer.take_data(argument)
            assert 1 <= len(taken) <= argument
            assert tokens(taken) == expected[: len(taken)]
            del expected[: len(taken)]
        places = [place for place, token in enumerate(expected, 1) if token.control]
        assert buffer.queued == len(expected)
        assert buffer.control == (expected[0].value if expected and expected[0].control else None)
        for count in (1, 4, 8):
            assert buffer.control_within(count) == (places[0] if places and places[0] <= count else 0)
