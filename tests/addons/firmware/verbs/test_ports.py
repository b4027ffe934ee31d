"""Ports and clock blocks of programs in C: what is on the pins, to the tick, and what the program sees."""

import re
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import trio

from aisrv.addons.firmware.compiler import INCLUDE
from aisrv.addons.firmware.tile_process import ProcessSettings
from aisrv.addons.firmware.whole_program import Outside, RunSettings
from aisrv.xcore.node import Node
from aisrv.xcore.ports.map import CLOCK_BLOCK_TYPE, PORT_IDS
from aisrv.xcore.ports.pin import Pin
from aisrv.xcore.ports.wire import Wire as PinWire
from aisrv.xcore.tile import Tile
from aisrv.xcore.traps import Trap
from tests.support.benches.c_programs import CASE, one_of, run_c

Wave = list[tuple[int, int]]


class Wire:
    """What is wired to a pin."""

    name = "a wire"


class Watch:
    """Collects tick and level of each change of pins, until the program has ended."""

    def __init__(self, *pins: str) -> None:
        self._names = pins
        self.waves: dict[str, Wave] = {name: [] for name in pins}

    async def __call__(self, node: Node, *, task_status: trio.TaskStatus[None]) -> None:
        async with trio.open_nursery() as nursery:
            for name in self._names:
                nursery.start_soon(self._collect, node.tiles[0].pin(name), self.waves[name])
            task_status.started()

    async def _collect(self, pin: Pin, wave: Wave) -> None:
        tick = 0
        while True:
            tick = await pin.edge(after=tick)
            wave.append((tick, pin.value(tick)))


def wired(task: Callable[[Tile], Awaitable[None]]) -> Outside:
    """Return a task on the pins of tile 0."""

    async def run(node: Node, *, task_status: trio.TaskStatus[None]) -> None:
        task_status.started()
        await task(node.tiles[0])

    return run


def drives(name: str, *changes: tuple[int, int]) -> Outside:
    """Return what drives a pin: each level, from a tick on."""

    async def task(tile: Tile) -> None:
        wire = Wire()
        for tick, level in changes:
            tile.pin(name).drive(level, wire, tick)
        await trio.sleep_forever()

    return wired(task)


def printed(capfd: pytest.CaptureFixture[str]) -> list[int]:
    """Return the numbers that the program printed."""
    return [int(word, 0) for word in capfd.readouterr().out.split()]


def test_ids_are_those_of_the_substrate() -> None:
    text = (INCLUDE / "xs1_ports.h").read_text()
    ports = {name: int(value, 16) for name, value in re.findall(r"XS1_PORT_(\w+) (0x\w+)", text)}
    assert ports == PORT_IDS
    blocks = {name: int(value, 16) for name, value in re.findall(r"XS1_CLKBLK_(\w+) (0x\w+)", text)}
    numbers = ["REF", "1", "2", "3", "4", "5"]
    assert blocks == {name: at << 8 | CLOCK_BLOCK_TYPE for at, name in enumerate(numbers)}


def test_outputs_are_a_falling_edge_apart(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            port_t p = XS1_PORT_1A;
            port_enable(p);
            for (int i = 1; i < 5; i++) port_out(p, i & 1);
            port_sync(p);
            printf("%u %u\\n", (unsigned)port_get_trigger_time(p), (unsigned)get_reference_time());
            port_out_at_time(p, 50, 1);
            port_out(p, 0);
            port_sync(p);
            printf("%u %u\\n", (unsigned)port_get_trigger_time(p), (unsigned)get_reference_time());
            return 0;
        }
    """
    watch = Watch("1A")
    assert run_c(tmp_path, text, outside=[watch]) == 0
    assert watch.waves["1A"] == [(1, 1), (2, 0), (3, 1), (4, 0), (50, 1), (51, 0)]
    assert printed(capfd) == [4, 5, 51, 52]


def test_a_buffered_port_shifts_out_at_the_edges_of_a_clock_block(tmp_path: Path) -> None:
    text = """
        int main(void) {
            port_t data = XS1_PORT_1A, clock = XS1_PORT_1B;
            xclock_t block = XS1_CLKBLK_1;
            clock_enable(block);
            clock_set_divide(block, 5); // a period of 10 ticks
            port_enable(clock);
            port_set_clock(clock, block);
            port_set_out_clock(clock);
            port_start_buffered(data, 8);
            port_set_clock(data, block);
            port_out(data, 0xA5);
            clock_start(block);
            port_out_part_word(data, 3, 2);
            port_sync(data);
            clock_stop(block);
            return 0;
        }
    """
    watch = Watch("1A", "1B")
    assert run_c(tmp_path, text, outside=[watch]) == 0
    bits = [1, 0, 1, 0, 0, 1, 0, 1, 1, 1]
    changes = [(10 + 10 * at, bit) for at, bit in enumerate(bits) if bit != ([0, *bits][at])]
    assert watch.waves["1A"] == changes
    assert watch.waves["1B"][:4] == [(5, 1), (10, 0), (15, 1), (20, 0)]


@pytest.mark.parametrize("has_posts", [True, False])
def test_part_words_of_two_cores_keep_their_lengths(tmp_path: Path, has_posts: bool) -> None:
    """As each is one instruction: the bits above those of a word are never out."""
    text = """
        DECLARE_JOB(outputs, (port_t, uint32_t, uint32_t));
        void outputs(port_t p, uint32_t data, uint32_t bits) {
            for (int i = 0; i < 5; i++) {
                port_out_part_word(p, data, bits);
                delay_ticks(20);
            }
        }
        int main(void) {
            port_t p = XS1_PORT_1A;
            port_start_buffered(p, 32);
            PAR_JOBS(PJOB(outputs, (p, 0xFFFFFFFD, 2)), PJOB(outputs, (p, 0xFFFFFFF5, 4)));
            port_sync(p);
            return 0;
        }
    """
    watch = Watch("1A")
    processes = {0: ProcessSettings(has_posts=has_posts)}
    settings = RunSettings(processes=processes, takes_chip_time=True)
    assert run_c(tmp_path, text, settings, outside=[watch]) == 0
    wave = watch.waves["1A"]
    assert [level for _, level in wave] == [1, 0] * 3 * 5
    assert {low - high for (high, _), (low, _) in zip(wave[::2], wave[1::2], strict=True)} == {1}


def test_a_clock_that_stops_lets_the_last_edge_of_a_word_out(tmp_path: Path) -> None:
    text = """
        int main(void) {
            port_t data = XS1_PORT_1A, clock = XS1_PORT_1B;
            xclock_t block = XS1_CLKBLK_1;
            clock_enable(block);
            clock_stop(block); // one that stands still takes no time for that
            clock_set_divide(block, 5); // rising edges at 5, 15, ...
            port_enable(clock);
            port_set_clock(clock, block);
            port_set_out_clock(clock);
            port_start_buffered(data, 8);
            port_set_clock(data, block);
            clock_start(block);
            port_in(data); // until the rising edge at 75
            clock_stop(block);
            delay_ticks(9);
            return 0;
        }
    """
    watch = Watch("1B")
    assert run_c(tmp_path, text, outside=[watch]) == 0
    assert watch.waves["1B"] == [(5 * edge, edge % 2) for edge in range(1, 16)] + [(77, 0)]


def test_a_word_is_shifted_in_and_its_rest_is_forced(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        int main(void) {
            port_t data = XS1_PORT_1A;
            xclock_t block = XS1_CLKBLK_1;
            clock_enable(block);
            clock_set_divide(block, 5); // rising edges at 5, 15, ...
            port_start_buffered(data, 8);
            port_set_clock(data, block);
            clock_start(block);
            printf("0x%x ", (unsigned)port_in(data));
            printf("%u ", (unsigned)get_reference_time());
            delay_ticks(30);
            uint32_t word;
            printf("%u ", (unsigned)port_force_input(data, &word));
            printf("0x%x\\n", (unsigned)word >> 5);
            return 0;
        }
    """
    levels = [1, 1, 0, 1, 0, 0, 1, 0, 1, 0, 1, 1]
    driver = drives("1A", *((10 * at, level) for at, level in enumerate(levels)))
    assert run_c(tmp_path, text, outside=[driver]) == 0
    word = sum(level << at for at, level in enumerate(levels[:8]))
    rest = sum(level << at for at, level in enumerate(levels[8:11]))
    assert printed(capfd) == [word, 75, 3, rest]


def test_shifts_of_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            port_t out = XS1_PORT_4A, in = XS1_PORT_4B;
            port_enable(out);
            port_enable(in);
            uint32_t rest = port_out_shift_right(out, 0x87654321);
            rest = port_out_shift_right_at_time(out, 20, rest);
            port_sync(out);
            uint32_t word = port_in_shift_right(in, 0xfedcba98);
            word = port_in_shift_right_at_time(in, 60, word);
            word = port_in_shift_right_when_pinseq(in, PORT_UNBUFFERED, 9, word);
            printf("0x%x 0x%x\\n", (unsigned)rest, (unsigned)word);
            return 0;
        }
    """
    outside = [
        Watch("4A.0", "4A.1"),
        drives("4B.0", (0, 1)),
        drives("4B.1", (0, 0), (40, 1), (80, 0)),
        drives("4B.2", (0, 0)),
        drives("4B.3", (0, 0), (90, 1)),
    ]
    assert run_c(tmp_path, text, outside=outside) == 0
    assert printed(capfd) == [0x00876543, 0x931FEDCB]
    assert isinstance(outside[0], Watch)
    assert outside[0].waves == {"4A.0": [(1, 1), (20, 0)], "4A.1": [(20, 1)]}


def test_inputs_wait_for_values_and_times(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        static void tell(unsigned value) { printf("%u %u ", value, (unsigned)get_reference_time()); }
        int main(void) {
            port_t p = XS1_PORT_1A;
            port_enable(p);
            tell(port_in_when_pinseq(p, PORT_UNBUFFERED, 1));
            tell(port_in_when_pinsneq(p, PORT_UNBUFFERED, 1));
            tell(port_in_at_time(p, 300));
            port_set_trigger_in_equal(p, 1);
            port_set_trigger_value(p, 0);
            tell(port_in(p));
            port_clear_trigger_in(p);
            tell(port_in(p));
            return 0;
        }
    """
    driver = drives("1A", (0, 0), (100, 1), (200, 0), (250, 1), (400, 0))
    assert run_c(tmp_path, text, outside=[driver]) == 0
    values = printed(capfd)
    assert values == [1, 101, 0, 201, 1, 301, 0, 401, 0, 402]  # a rising edge sees the level of before


def test_a_loop_that_looks_at_pins_goes_on_as_they_change(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        int main(void) {
            port_t p = XS1_PORT_1A, q = XS1_PORT_1B;
            port_enable(p);
            port_enable(q);
            while (!port_peek(p));
            printf("%u ", (unsigned)get_reference_time());
            while (port_peek(p) && !port_peek(q));
            printf("%u ", (unsigned)get_reference_time());
            hwtimer_t t = hwtimer_alloc();
            uint32_t end = get_reference_time() + 1000;
            while (!port_peek(p) && hwtimer_get_time(t) < end);
            printf("%d\\n", hwtimer_get_time(t) - end < 200);
            return 0;
        }
    """
    outside = [drives("1A", (0, 0), (123_456, 1), (123_999, 0)), drives("1B", (0, 0))]
    assert run_c(tmp_path, text, outside=outside) == 0
    assert printed(capfd) == [123_456, 123_999, 1]


def test_in_device_time_each_look_takes_a_slot_and_sees_what_is_driven_meanwhile(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    async def presses(tile: Tile) -> None:
        wire, pin = Wire(), tile.pin("1A")
        for level, tick in ((0, 0), (1, 1_000), (0, 2_000)):
            await pin.until(tick)
            pin.drive(level, wire)
        await trio.sleep_forever()

    text = """
        int main(void) {
            port_t p = XS1_PORT_1A;
            unsigned looks = 0;
            port_enable(p);
            while (!port_peek(p)) looks++;
            printf("%u %u ", looks, (unsigned)get_reference_time());
            while (port_peek(p)) looks++;
            printf("%u %u\\n", looks, (unsigned)get_reference_time());
            return 0;
        }
    """
    assert run_c(tmp_path, text, RunSettings(takes_chip_time=True), outside=[wired(presses)]) == 0
    assert printed(capfd) == [1197, 1000, 2396, 2000]  # slots of 5 clocks; the first enables the port


def test_two_looks_at_once_let_no_time_pass(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            port_enable(XS1_PORT_1A);
            port_enable(XS1_PORT_1B);
            unsigned sum = port_peek(XS1_PORT_1A) + 2 * port_peek(XS1_PORT_1B);
            printf("%u %u\\n", sum, (unsigned)get_reference_time());
            return 0;
        }
    """
    assert run_c(tmp_path, text, outside=[drives("1B", (0, 1))]) == 0
    assert printed(capfd) == [2, 0]


def test_outputs_that_wait_come_before_a_read_of_the_clock(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        int main(void) {
            port_start_buffered(XS1_PORT_1A, 32);
            uint32_t before = get_reference_time();
            for (int i = 0; i < 100; i++) port_out(XS1_PORT_1A, i);
            printf("%u %u\\n", (unsigned)before, (unsigned)get_reference_time());
            return 0;
        }
    """
    assert run_c(tmp_path, text) == 0
    assert printed(capfd) == [0, 1 + 98 * 32]


def test_a_port_with_a_pull_up_drives_0_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            port_t p = XS1_PORT_1A;
            port_enable(p);
            port_write_control_word(p, XS1_SETC_DRIVE_PULL_UP);
            for (int i = 0; i < 3; i++) {
                port_out(p, i != 1);
                port_sync(p);
                printf("%u ", (unsigned)port_peek(p));
                delay_ticks(50);
            }
            return 0;
        }
    """
    assert run_c(tmp_path, text, outside=[drives("1A", (0, 2), (100, 0))]) == 0
    assert printed(capfd) == [1, 0, 0]


def test_a_select_takes_ports_and_timers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            port_t p = XS1_PORT_1A;
            hwtimer_t t = hwtimer_alloc();
            int events = 0;
            port_enable(p);
            port_set_trigger_in_equal(p, 1);
            hwtimer_set_trigger_time(t, 500);
            SELECT_RES(CASE_THEN(p, on_pin), CASE_THEN(t, on_time)) {
            on_pin:
                port_set_trigger_in_not_equal(p, port_in(p));
                printf("%u ", (unsigned)get_reference_time());
                if (++events == 4) break;
                continue;
            on_time:
                hwtimer_get_time(t);
                printf("t%u ", (unsigned)get_reference_time());
                hwtimer_set_trigger_time(t, 100000);
                continue;
            }
            return 0;
        }
    """
    driver = drives("1A", (0, 0), (100, 1), (200, 0), (700, 1), (750, 0))
    assert run_c(tmp_path, text, outside=[driver]) == 0
    assert capfd.readouterr().out == "101 201 t501 701 751 "


def test_a_port_interrupts_a_core(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        #include <xcore/interrupt.h>
        #include <xcore/interrupt_wrappers.h>
        static port_t p = XS1_PORT_1A;
        static volatile int rises;
        DEFINE_INTERRUPT_CALLBACK(pins, on_rise, data) {
            port_in(p);
            port_set_trigger_in_not_equal(p, port_peek(p));
            rises++;
        }
        DEFINE_INTERRUPT_PERMITTED(pins, int, waits, void) {
            port_enable(p);
            port_set_trigger_in_equal(p, 1);
            triggerable_setup_interrupt_callback(p, NULL, INTERRUPT_CALLBACK(on_rise));
            triggerable_enable_trigger(p);
            interrupt_unmask_all();
            delay_ticks(1000);
            return rises;
        }
        int main(void) { return INTERRUPT_PERMITTED(waits)(); }
    """
    driver = drives("1A", (0, 0), (100, 1), (200, 0), (300, 1), (5000, 0))
    assert run_c(tmp_path, text, outside=[driver]) == 3


TRAPS = {
    "port_in(XS1_PORT_1A)": r"in on port .*, which is not enabled, in main at program\.c:1",
    "port_out(XS1_PORT_1A, 1); port_peek(XS1_PORT_1A)": r"out on port .* not enabled, at or before in main",
    "port_enable(0x10000 * 3)": r"port_enable on 0x30000: port 0x30000: a tile has 1A to 1P",
    "clock_start(0x206)": r"setc on clock block 0x206, which is not enabled",
    "clock_enable(0x706)": r"clock_enable on 0x706: ",
    "port_enable(XS1_PORT_4A); port_set_invert(XS1_PORT_4A)": "has 4 bits and cannot be inverted",
    "port_enable(XS1_PORT_1A); port_write_control_word(XS1_PORT_1A, 0x7037)": "which has no pin delay of 6",
    "port_enable(XS1_PORT_4A); port_write_control_word(XS1_PORT_4A, 0x33)": "no control word 0x33",
    "port_enable(XS1_PORT_1A); port_set_ready_strobed(XS1_PORT_1A)": "which is not buffered",
    "port_start_buffered(XS1_PORT_1A, 8); port_set_slave(XS1_PORT_1A)": "which is not strobed",
    "port_enable(XS1_PORT_4A); port_set_out_ready(XS1_PORT_4A, XS1_PORT_1A)": "which has 4 bits",
    "clock_enable(0x106); clock_set_ready_src(0x106, XS1_PORT_1A)": "setrdy of clock block 0x106",
    "port_start_buffered(XS1_PORT_8A, 4)": "has no transfer width of 4",
}


@pytest.mark.parametrize("statement", TRAPS)
def test_what_a_port_refuses_traps_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, statement: str
) -> None:
    monkeypatch.setenv(CASE, str(list(TRAPS).index(statement)))
    text = f"int main(void) {{ {one_of(TRAPS)} return 0; }}"
    with pytest.raises(Trap) as trapped:
        run_c(tmp_path, text, RunSettings(stops_at_trap=True))
    assert trapped.value.kind.name == "ILLEGAL_RESOURCE"
    assert re.search(TRAPS[statement], trapped.value.reason), trapped.value.reason


def loops(*wires: tuple[str, str]) -> Outside:
    """Return wires from ports to others, of the same width."""

    async def task(tile: Tile) -> None:
        for source, target in wires:
            for a, b in zip(tile.port(source).pins, tile.port(target).pins, strict=True):
                PinWire(a, b)
        await trio.sleep_forever()

    return wired(task)


def test_a_core_has_a_mode(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        #include <xcore/thread.h>
        int main(void) {
            local_thread_mode_set_bits(thread_mode_fast | thread_mode_high_priority);
            printf("0x%x ", local_thread_mode_get_bits());
            local_thread_mode_clear_bits(thread_mode_fast);
            printf("0x%x\\n", local_thread_mode_get_bits());
            return 0;
        }
    """
    assert run_c(tmp_path, text) == 0
    assert printed(capfd) == [0x480, 0x400]


def test_delays_of_pins_are_taken(tmp_path: Path) -> None:
    text = """
        int main(void) {
            port_enable(XS1_PORT_1A);
            for (int n = 0; n < 6; n++) port_write_control_word(XS1_PORT_1A, 0x7007 | n << 3);
            return port_peek(XS1_PORT_1A);
        }
    """
    assert run_c(tmp_path, text, outside=[drives("1A", (0, 1))]) == 1


def test_handshaken_ports_pass_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        #include <xcore/port_protocol.h>
        int main(void) {
            port_t p = XS1_PORT_8A, q = XS1_PORT_8B;
            port_t p_in = XS1_PORT_1A, p_out = XS1_PORT_1B, p_clock = XS1_PORT_1C;
            port_t q_in = XS1_PORT_1D, q_out = XS1_PORT_1E, q_clock = XS1_PORT_1F;
            port_t signals[] = {p_in, p_out, p_clock, q_in, q_out, q_clock};
            xclock_t p_block = XS1_CLKBLK_1, q_block = XS1_CLKBLK_2;
            for (int i = 0; i < 6; i++) port_enable(signals[i]);
            port_start_buffered(p, 32);
            port_start_buffered(q, 32);
            clock_enable(p_block);
            clock_set_divide(p_block, 12);
            port_protocol_in_handshake(p, p_in, p_out, p_block);
            port_set_clock(p_clock, p_block);
            port_set_out_clock(p_clock);
            clock_enable(q_block);
            clock_set_source_port(q_block, q_clock);
            port_protocol_out_handshake(q, q_in, q_out, q_block, 0xFF);
            printf("0x%x ", (unsigned)port_peek(q));
            clock_start(q_block);
            clock_start(p_block);
            port_out(q, 0x2CC94916);
            port_out(q, 0xDE298055);
            printf("0x%x ", (unsigned)port_in(p));
            printf("0x%x ", (unsigned)port_in(p));
            port_out_at_time(q, 32, 0xCC2B4EF9);
            printf("0x%x ", (unsigned)port_in(p));
            printf("%u\\n", (unsigned)port_get_trigger_time(p));
            return 0;
        }
    """
    wires = loops(("8B", "8A"), ("1E", "1A"), ("1B", "1D"), ("1C", "1F"))
    assert run_c(tmp_path, text, outside=[wires]) == 0
    assert printed(capfd) == [0xFF, 0x2CC94916, 0xDE298055, 0xCC2B4EF9, 35]


def test_strobed_ports_pass_words(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        #include <xcore/port_protocol.h>
        static void set_up(port_t p, port_t signal) {
            port_start_buffered(p, 8);
            port_enable(signal);
        }
        int main(void) {
            port_t sent = XS1_PORT_1A, valid = XS1_PORT_1B, received = XS1_PORT_1C, is_valid = XS1_PORT_1D;
            port_t asked = XS1_PORT_1E, room = XS1_PORT_1F, shown = XS1_PORT_1G, has_room = XS1_PORT_1H;
            set_up(sent, valid);
            set_up(received, is_valid);
            set_up(asked, room);
            set_up(shown, has_room);
            for (xclock_t block = XS1_CLKBLK_1; block <= XS1_CLKBLK_2; block += 0x100) {
                clock_enable(block);
                clock_set_divide(block, 5);
            }
            port_protocol_out_strobed_master(sent, valid, XS1_CLKBLK_1, 1);
            port_protocol_in_strobed_slave(received, is_valid, XS1_CLKBLK_1);
            port_protocol_in_strobed_master(asked, room, XS1_CLKBLK_2);
            port_protocol_out_strobed_slave(shown, has_room, XS1_CLKBLK_2, 0);
            clock_start(XS1_CLKBLK_1);
            delay_ticks(1000);
            port_out(sent, 0xA5);
            printf("0x%x ", (unsigned)port_in(received));
            port_out(shown, 0x3C);
            clock_start(XS1_CLKBLK_2);
            printf("0x%x\\n", (unsigned)port_in(asked) >> 1);
            return 0;
        }
    """
    wires = loops(("1A", "1C"), ("1B", "1D"), ("1F", "1H"), ("1G", "1E"))
    assert run_c(tmp_path, text, outside=[wires]) == 0
    assert printed(capfd) == [0xA5, 0x3C]


def test_ready_signals_are_taken_off(tmp_path: Path) -> None:
    text = """
        int main(void) {
            port_t p = XS1_PORT_1A;
            port_start_buffered(p, 8);
            port_set_clock(p, XS1_CLKBLK_REF);
            port_set_ready_handshake(p);
            port_set_ready_strobed(p);
            port_set_slave(p);
            port_set_master(p);
            port_set_no_ready(p);
            port_set_unbuffered(p);
            return 0;
        }
    """
    with pytest.raises(Trap, match="transfer width of 8"):  # the first thing that is still in the way
        run_c(tmp_path, text, RunSettings(stops_at_trap=True))
