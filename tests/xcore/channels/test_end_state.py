"""What an end counts of what it sends: the page glows by it."""

from aisrv.xcore.tokens import Control
from tests.support.benches.simulation import bench, settle, simulated
from tests.xcore.channels.test_chanend_packets import packet


@simulated
async def test_a_run_of_bytes_counts_once() -> None:
    async with bench() as test:
        await test.a.outbytes(b"seven b")
        assert (test.a.crossed, test.b.crossed) == (1, 0)


@simulated
async def test_a_packet_counts_once() -> None:
    async with bench() as test:
        test.start(packet, test.a, b"seven b")
        await settle()
        assert test.a.crossed == 1


@simulated
async def test_a_run_for_a_reader_that_waits_counts_once() -> None:
    async with bench() as test:
        read = test.start(test.b.inbytes, 4)
        await settle()
        await test.a.outbytes(b"four")
        await settle()
        assert (read.value(), test.a.crossed) == (b"four", 1)


@simulated
async def test_an_end_that_closes_counts_beside_its_data() -> None:
    async with bench() as test:
        await test.a.outbytes(b"abc")
        await test.a.outct(Control.END)
        assert test.a.crossed == 2
