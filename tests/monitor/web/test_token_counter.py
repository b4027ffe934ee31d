"""Tokens by channel end, while a tracer counts."""

from aisrv.monitor.web.token_counter import TokenCounter
from aisrv.xcore.node import open_node
from aisrv.xcore.tokens import Control


async def test_tokens_are_counted_where_they_leave() -> None:
    counter = TokenCounter()
    async with open_node() as node:
        a, b = node.channel(*node.tiles)
        await a.outuint(1)
        assert await b.inuint() == 1
        with node.tracing(counter):
            await a.outuint(2)
            await a.outct(Control.END)
            assert await b.inuint() == 2
            await b.chkct(Control.END)
        await b.outuint(3)
        assert await a.inuint() == 3
        assert counter.tokens == {a.resource_id: 5}
