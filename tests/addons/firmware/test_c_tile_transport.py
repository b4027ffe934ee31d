"""Memory of one tile to another by four cores, as lib_tflite_micro moves it."""

from functools import partial
from pathlib import Path
from random import Random

import pytest
import trio
import trio.testing

from aisrv.addons.firmware.c_tile import CTile
from aisrv.addons.firmware.compiler import Program, Unit, build
from aisrv.addons.firmware.tile_process import TileProcess
from aisrv.xcore.channels.chanend import ChanEnd
from aisrv.xcore.channels.channel import chan_in_buf_word, chan_in_word, chan_out_word
from aisrv.xcore.lib_xcore import par
from aisrv.xcore.node import open_node
from aisrv.xcore.tile import Tile
from tests.support.amounts import amount
from tests.support.benches.c_programs import need_compiler, run_c
from tests.support.paths import ROOT

BLOCK = 96
READ, QUIT = 0, 4
RAM_BYTES = 64 * 1024
SERVER = ROOT / "tests/addons/firmware/programs/memory_server.c"

TRANSPORT = """
    #include <stdint.h>
    typedef struct { int count; uint32_t *data; } destination_t;
    void transmit_tx(chanend_t c, int number, int count, uint32_t *data);
    void receive_rx(destination_t *destination, chanend_t c, int number);
"""


def test_what_one_core_of_four_moves(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    DECLARE_JOB(transmit_tx, (chanend_t, int, int, uint32_t *));
    static uint32_t from[48], to[48];
    static void listens(chanend_t c) {
        chanend_in_word(c); // without a meaning
        for (int i = 0; i < 12; i++) printf("%u ", (unsigned)chanend_in_word(c));
        chanend_in_word(c);
        chanend_check_end_token(c);
        puts("");
    }
    DECLARE_JOB(receive_rx, (destination_t *, chanend_t, int));
    int main(void) {
        channel_t c = chan_alloc();
        destination_t destination = {2, to};
        for (int i = 0; i < 48; i++) from[i] = i;
        PAR_JOBS(PJOB(listens, (c.end_a)), PJOB(transmit_tx, (c.end_b, 2, 2, from)));
        PAR_JOBS(PJOB(transmit_tx, (c.end_b, 1, 2, from)), PJOB(receive_rx, (&destination, c.end_a, 1)));
        for (int i = 0; i < 48; i++) if (to[i]) printf("%d:%u ", i, (unsigned)to[i]);
        puts("");
        return 0;
    }
    """
    assert run_c(tmp_path, TRANSPORT + text) == 0
    moved = [*range(12, 18), *range(36, 42)]
    received = [*range(6, 12), *range(30, 36)]
    assert capfd.readouterr().out.splitlines() == [
        " ".join(map(str, moved)) + " ",
        " ".join(f"{word}:{word}" for word in received) + " ",
    ]


def test_calls_of_threads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    typedef struct { uint32_t ids[4], synchroniser, words; void *stacks; } info_t;
    void thread_init_4(info_t *), thread_destroy(info_t *), thread_variable_setup(void *, void *, uint32_t);
    void thread_call(void *, void *, void *, void (*)(void *, void *, void *), info_t *);
    int thread_invoke_5(void *, info_t *);
    static unsigned sums[5];
    static void add(void *shared, void *place, void *value) {
        delay_ticks(100);
        sums[(uintptr_t)place] += *(unsigned *)shared + (unsigned)(uintptr_t)value;
    }
    static info_t *given;
    int interp_invoke_internal(void *engine) {
        for (unsigned long i = 0; i < 4; i++) {
            thread_variable_setup((void *)(i + 1), (void *)(i * 10), given->ids[i]);
        }
        thread_call(engine, (void *)0, (void *)100, add, given);
        return 7;
    }
    int main(void) {
        info_t info;
        unsigned shared = 1000;
        thread_init_4(&info);
        printf("%d %d\\n", info.ids[2] != 0, info.ids[3] != 0);
        for (unsigned long i = 1; i < 4; i++) thread_variable_setup((void *)i, (void *)i, info.ids[i - 1]);
        for (int i = 0; i < 2; i++) thread_call(&shared, (void *)0, (void *)50, add, &info);
        for (int i = 0; i < 5; i++) printf("%u ", sums[i]);
        printf("at %u\\n", (unsigned)get_reference_time());
        thread_destroy(&info);
        given = &info;
        printf("%d:", thread_invoke_5(&shared, &info));
        printf(" %u %u\\n", sums[0], sums[4]);
        thread_variable_setup(0, 0, info.ids[0]);
        return 0;
    }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out.splitlines() == [
        "1 0",
        "2100 2002 2004 2006 0 at 202",
        "7: 3200 1030",
    ]


def _served(seed: int) -> bytes:
    """Return the memory of the server."""
    words = ((seed + place) * 2654435761 & 0xFFFFFFFF for place in range(RAM_BYTES // 4))
    return b"".join(word.to_bytes(4, "little") for word in words)


async def _receive(c: ChanEnd, tile: Tile, size: int) -> bytes:
    """Receive bytes on four cores: the client's side of the transport, from the rules alone."""
    whole, ends = size // BLOCK, []
    words = [0] * (24 * whole)
    for _ in range(3):
        end = tile.allocate_chanend()
        ends.append(end)
        await chan_out_word(c, end.resource_id)
        end.setd(await chan_in_word(c))

    async def part(end: ChanEnd, number: int) -> None:
        await end.inuint()
        for block in range(whole):
            for word in range(6):
                words[24 * block + 6 * number + word] = await end.inuint()
        await end.inuint()
        await end.chkct(1)

    await par(tile, *(partial(part, end, number) for number, end in enumerate([*ends, c])))
    for end in ends:
        await end.outct(1)
        await end.chkct(1)
    rest = await chan_in_buf_word(c, (size - whole * BLOCK) // 4)
    for end in ends:
        end.free()
    return b"".join(word.to_bytes(4, "little") for word in words) + rest


@pytest.mark.in_full
def test_a_server_in_c_serves_reads_to_a_client_in_python() -> None:
    program = build(Program((Unit((SERVER,)),), functions=("serves",)), need_compiler())
    random = Random(3)
    memory = _served(17)

    async def main() -> None:
        async with open_node() as node:
            with CTile(node.tiles[0], TileProcess(program, 0)) as tile:
                a, b = node.channel(*node.tiles)

                async def client() -> None:
                    for _ in range(amount(1000, every_day=100)):
                        place = 4 * random.randrange(len(memory) // 4)
                        size = min(4 * random.randrange(600), len(memory) - place)
                        await chan_out_word(b, READ)
                        assert await chan_in_word(b) == 1
                        await chan_out_word(b, place)
                        await chan_out_word(b, size)
                        assert await _receive(b, node.tiles[1], size) == memory[place : place + size]
                    await chan_out_word(b, QUIT)

                async def server() -> None:
                    await tile.run(0, 0, "serves", [a, 17])

                node.tiles[0].start(server)
                ended = trio.Event()

                async def to_the_end() -> None:
                    await client()
                    ended.set()

                node.tiles[1].start(to_the_end)
                await ended.wait()
                await trio.testing.wait_all_tasks_blocked()

    trio.run(main, clock=trio.testing.MockClock(autojump_threshold=0))
