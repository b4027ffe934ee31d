"""When a normal output must not cross at once, and what its tokens leave then."""

import pytest

from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_word, chan_out_buf_byte, chan_out_word
from aisrv.xcore.channels.verb import Steps, verb
from aisrv.xcore.tokens import Control
from aisrv.xcore.traps import Trap
from tests.support.benches.simulation import bench, settle, simulated

# Who outputs, what, how long either side dawdles before it, and whether the receiver selects first.


@simulated
async def test_an_output_of_another_size_than_the_input_traps_as_its_tokens_do() -> None:
    async with bench() as test:
        receiver = test.start(chan_in_word, test.b)
        sender = test.start(chan_out_buf_byte, test.a, b"\1\2")
        await settle()
        assert not sender.done
        with pytest.raises(Trap, match=f"expected data on {test.b.name}, got control token [0-9]+"):
            receiver.value()


@simulated
async def test_an_output_cancelled_before_it_was_taken_leaves_its_first_end() -> None:
    async with bench() as test:
        sender = test.start(chan_out_word, test.a, 7)
        await settle()
        await sender.cancel()
        receiver = test.start(chan_in_word, test.b)
        await settle()
        assert not receiver.done  # it has answered the END, and no data come
        assert await test.a.inct() == Control.END


@simulated
async def test_an_input_cancelled_before_anything_came_takes_nothing() -> None:
    async with bench() as test:
        receiver = test.start(chan_in_word, test.b)
        await settle()
        await receiver.cancel()
        sender = test.start(chan_out_word, test.a, 7)
        await settle()
        assert not sender.done
        assert await chan_in_word(test.b) == 7


@simulated
async def test_tokens_of_a_third_end_are_not_mistaken_for_the_other_side() -> None:
    async with bench() as test:
        third = test.node.tiles[0].allocate_chanend()
        third.setd(test.b)
        receiver = test.start(chan_in_word, test.b)
        await settle()
        await third.outct(Control.END)
        await third.outuint(9)
        await third.outct(Control.END)
        sender = test.start(chan_out_word, test.a, 7)
        await settle()
        assert receiver.value() == 9
        assert sender.done  # it took the answers that the third end got for its own
        assert await test.b.inct() == Control.END
        assert await test.b.inuint() == 7


@simulated
async def test_an_input_that_a_token_began_is_not_handed_the_next_output() -> None:
    async with bench() as test:
        receiver = test.start(chan_in_word, test.b)
        await settle()
        await test.a.outct(Control.END)
        await test.a.chkct(Control.END)
        sender = test.start(chan_out_word, test.a, 5)
        await settle()
        assert not sender.done
        with pytest.raises(Trap, match=f"expected data on {test.b.name}, got control token 1"):
            receiver.value()


@simulated
async def test_an_output_that_a_token_answered_is_not_offered_again() -> None:
    async with bench() as test:
        sender = test.start(chan_out_word, test.a, 5)
        await settle()
        await test.b.chkct(Control.END)
        await test.b.outct(Control.END)
        assert await test.b.inuint() == 5
        receiver = test.start(chan_in_word, test.b)
        await settle()
        assert (sender.done, receiver.done) == (True, False)


@simulated
async def test_the_end_of_an_output_gives_the_destination_to_the_next_source() -> None:
    async with bench() as test:
        await test.a.outuint(1)
        waits = test.start(test.end(test.b).outuint, 2)
        await settle()
        test.start(chan_out_word, test.a, 5)
        await settle()
        assert waits.done is False
        assert await test.b.inuint() == 1
        await test.b.chkct(Control.END)
        await settle()
        assert waits.done


@simulated
async def test_an_input_is_not_handed_an_output_behind_a_token_of_the_same_step() -> None:
    @verb
    def end_and_word(c: ChanEnd) -> Steps[None]:
        yield from c.packet(b"")
        yield from chan_out_word(c, 5)

    async with bench() as test:
        receiver = test.start(chan_in_word, test.b)
        await settle()
        sender = test.start(end_and_word, test.a)
        await settle()
        assert not sender.done
        with pytest.raises(Trap, match=f"expected data on {test.b.name}, got control token 1"):
            receiver.value()


@simulated
async def test_an_offer_is_not_taken_behind_a_token_of_the_same_step() -> None:
    @verb
    def byte_and_input(c: ChanEnd) -> Steps[int]:
        yield from c.chkct(Control.END)
        yield from c.packet(b"x")
        return (yield from chan_in_word(c))

    async with bench() as test:
        await test.end(test.b).outct(Control.END)
        sender = test.start(chan_out_word, test.a, 5)
        await settle()
        receiver = test.start(byte_and_input, test.b)
        await settle()
        assert not receiver.done
        with pytest.raises(Trap, match=f"expected control token 1 on {test.a.name}, got data"):
            sender.value()
