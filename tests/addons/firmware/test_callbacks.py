"""Interrupts of programs in C: callbacks while their core waits and as it unmasks, and their faults."""

from pathlib import Path

import pytest

from aisrv.addons.firmware.whole_program import TRAPPED, RunSettings
from tests.addons.firmware.verbs.test_ports import drives
from tests.support.benches.c_programs import CASE, COMPILERS, one_of, run_c

HEAD = """
    #include <xcore/interrupt.h>
    #include <xcore/interrupt_wrappers.h>
    typedef struct { chanend_t c; unsigned count, sum; hwtimer_t t; uint32_t time; } state_t;
"""


def _output(folder: Path, capfd: pytest.CaptureFixture[str], text: str, compiler: str = "gcc") -> str:
    assert run_c(folder, HEAD + text, compiler=compiler) == 0
    return capfd.readouterr().out


@pytest.mark.parametrize("compiler", COMPILERS)
def test_callbacks_run_on_the_core_that_waits_in_an_input(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str
) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    DEFINE_INTERRUPT_CALLBACK(group, on_word, data) {
        state_t *state = (state_t *)data;
        unsigned word = chanend_in_word(state->c);
        state->sum += word;
        state->count++;
        printf("on_word %u at %u\\n", word, (unsigned)get_reference_time());
    }
    static chanend_t interrupts, waits;
    DEFINE_INTERRUPT_PERMITTED(group, void, listens, void) {
        state_t state = {.c = interrupts};
        triggerable_setup_interrupt_callback(interrupts, &state, INTERRUPT_CALLBACK(on_word));
        triggerable_enable_trigger(interrupts);
        interrupt_unmask_all();
        printf("got %u\\n", (unsigned)chanend_in_word(waits));
        printf("count %u, sum %u\\n", state.count, state.sum);
    }
    DECLARE_JOB(sends, (chanend_t, chanend_t));
    void sends(chanend_t a, chanend_t b) {
        for (unsigned i = 1; i <= 3; i++) {
            delay_ticks(100);
            chanend_out_word(a, i);
        }
        delay_ticks(100);
        chanend_out_word(b, 7);
    }
    int main(void) {
        channel_t c = chan_alloc(), d = chan_alloc();
        interrupts = c.end_a;
        waits = d.end_a;
        PAR_JOBS(PJOB(INTERRUPT_PERMITTED(listens), ()), PJOB(sends, (c.end_b, d.end_b)));
        return 0;
    }
    """,
        compiler,
    )
    assert printed == ("on_word 1 at 101\non_word 2 at 202\non_word 3 at 303\ngot 7\ncount 3, sum 6\n")


def test_a_function_that_is_permitted_interrupts_may_be_any_job(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    DECLARE_INTERRUPT_CALLBACK(on_word, data);
    DECLARE_INTERRUPT_PERMITTED(void, listens, chanend_t c, unsigned n);
    DECLARE_JOB(INTERRUPT_PERMITTED(listens), (chanend_t, unsigned));
    DECLARE_JOB(INTERRUPT_PERMITTED(rests), (void));
    static unsigned sum;
    DEFINE_INTERRUPT_CALLBACK(group, on_word, data) { sum += chanend_in_word(*(chanend_t *)data); }
    DEFINE_INTERRUPT_PERMITTED(group, void, listens, chanend_t c, unsigned n) {
        chanend_setup_interrupt_callback(c, &c, INTERRUPT_CALLBACK(on_word));
        triggerable_set_trigger_enabled(c, 1);
        interrupt_unmask_all();
        delay_ticks(n);
        triggerable_disable_all();
    }
    DEFINE_INTERRUPT_PERMITTED(group, void, rests, void) {}
    static void sends(chanend_t c) { for (unsigned i = 1; i <= 10; i++) chanend_out_word(c, i); }
    int main(void) {
        channel_t c = chan_alloc();
        PAR_JOBS(PJOB(sends, (c.end_b)), PJOB(INTERRUPT_PERMITTED(listens), (c.end_a, 50)),
                 PJOB(INTERRUPT_PERMITTED(rests), ()));
        printf("sum %u\\n", sum);
        return 0;
    }
    """,
    )
    assert printed == "sum 55\n"


def test_a_timer_interrupts_and_its_callback_moves_its_time(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    DEFINE_INTERRUPT_CALLBACK(group, on_time, data) {
        state_t *state = (state_t *)data;
        printf("on_time at %u\\n", (unsigned)hwtimer_get_time(state->t));
        if (++state->count == 3) triggerable_disable_trigger(state->t);
        state->time += 100;
        hwtimer_set_trigger_time(state->t, state->time);
    }
    int main(void) {
        state_t state = {.t = hwtimer_alloc(), .time = 99};
        hwtimer_setup_interrupt_callback(state.t, state.time, &state, INTERRUPT_CALLBACK(on_time));
        triggerable_enable_trigger(state.t);
        interrupt_unmask_all();
        delay_ticks(1000);
        printf("main at %u\\n", (unsigned)get_reference_time());
        hwtimer_free(state.t);
        return 0;
    }
    """,
    )
    assert printed == "on_time at 100\non_time at 200\non_time at 300\nmain at 1001\n"


def test_nothing_interrupts_while_masked(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    DEFINE_INTERRUPT_CALLBACK(group, on_word, data) {
        interrupt_mask_all(); // changes nothing here
        printf("on_word %u\\n", (unsigned)chanend_in_word(*(chanend_t *)data));
    }
    int main(void) {
        channel_t c = chan_alloc();
        triggerable_setup_interrupt_callback(c.end_a, &c.end_a, INTERRUPT_CALLBACK(on_word));
        triggerable_enable_trigger(c.end_a);
        chanend_out_word(c.end_b, 1);
        delay_ticks(100);
        printf("unmask\\n");
        interrupt_unmask_all();
        printf("unmasked\\n");
        chanend_out_word(c.end_b, 2);
        printf("main\\n");
        interrupt_mask_all();
        chanend_out_word(c.end_b, 3);
        printf("main takes %u itself\\n", (unsigned)chanend_in_word(c.end_a));
        interrupt_unmask_all();
        triggerable_disable_trigger(c.end_a);
        chanend_out_word(c.end_b, 4);
        printf("disabled\\n");
        triggerable_enable_trigger(c.end_a);
        printf("end\\n");
        return 0;
    }
    """,
    )
    assert printed.splitlines() == [
        "unmask",
        "on_word 1",
        "unmasked",
        "on_word 2",
        "main",
        "main takes 3 itself",
        "disabled",
        "on_word 4",
        "end",
    ]


def test_events_and_interrupts_of_one_core(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    printed = _output(
        tmp_path,
        capfd,
        """
    DEFINE_INTERRUPT_CALLBACK(group, on_word, data) {
        chanend_t c = *(chanend_t *)data;
        printf("on_word %u\\n", (unsigned)chanend_in_word(c));
    }
    static void listens(chanend_t c, chanend_t d) {
        triggerable_setup_interrupt_callback(c, &c, INTERRUPT_CALLBACK(on_word));
        triggerable_enable_trigger(c);
        TRIGGERABLE_SETUP_EVENT_VECTOR(d, event);
        triggerable_enable_trigger(d);
        interrupt_unmask_all();
        TRIGGERABLE_WAIT_EVENT(event);
    event:
        printf("event %u\\n", (unsigned)chanend_in_word(d));
        SELECT_RES(CASE_THEN(d, again)) {
        again:
            printf("select %u\\n", (unsigned)chanend_in_word(d));
            break;
        }
    }
    DECLARE_JOB(sends, (chanend_t, chanend_t));
    void sends(chanend_t a, chanend_t b) {
        for (unsigned i = 1; i <= 2; i++) {
            delay_ticks(100);
            chanend_out_word(a, i);
            delay_ticks(100);
            chanend_out_word(b, i);
        }
    }
    int main(void) {
        channel_t c = chan_alloc(), d = chan_alloc();
        PAR_JOBS(PJOB(listens, (c.end_a, d.end_a)), PJOB(sends, (c.end_b, d.end_b)));
        return 0;
    }
    """,
    )
    assert printed == "on_word 1\nevent 1\non_word 2\nselect 2\n"


FAULT = """
    static chanend_t waits;
    static int *volatile nothing;
    static void inner(void) {
        FAULT;
    }
    DEFINE_INTERRUPT_CALLBACK(group, on_word, data) {
        chanend_in_word(*(chanend_t *)data);
        inner();
    }
    static void wait_here(void) {
        chanend_in_word(waits);
    }
    DECLARE_JOB(listens, (chanend_t, chanend_t));
    void listens(chanend_t c, chanend_t d) {
        waits = d;
        triggerable_setup_interrupt_callback(c, &c, INTERRUPT_CALLBACK(on_word));
        triggerable_enable_trigger(c);
        interrupt_unmask_all();
        wait_here();
        printf("never\\n");
    }
    int main(void) {
        channel_t c = chan_alloc(), d = chan_alloc();
        hwtimer_t t = hwtimer_alloc();
        const xc_job_t job = {xc_run_listens, &(struct xc_job_listens){c.end_a, d.end_a}, "listens"};
        xc_fork(1, &job);
        delay_ticks(100);
        chanend_out_word(c.end_b, 1);
        hwtimer_delay(t, 100);
        printf("main goes on\\n");
        return 0;
    }
"""


FAULTS = {
    "*nothing = 1": "LOAD_STORE (5): segmentation fault at 0",
    "xassert(waits == 0)": "ECALL (8): xassert(waits == 0) failed at program.c:8",
    "chan_out_word(chanend_alloc(), 5)": (
        "LINK_ERROR (1): output on chanend 0x80000502, which has no destination"
    ),
    "chanend_in_word(waits)": (
        "RESOURCE_DEP (9): inuint on chanend 0x80000302 while tile 0 core 1 (listens) is in inuint on it"
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_callback_halts_its_core_and_names_what_it_interrupted(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    fault: str,
) -> None:
    monkeypatch.setenv(CASE, str(list(FAULTS).index(fault)))
    assert run_c(tmp_path, HEAD + FAULT.replace("FAULT", one_of(FAULTS))) == TRAPPED
    assert capfd.readouterr().out == "main goes on\n"
    inner = "isr in inner at program.c:8, called by on_word at program.c:12"
    expected = f"{FAULTS[fault]}, {inner}, which interrupted wait_here at program.c:15"
    assert expected in caplog.text


NESTED = """
    static chanend_t one, other;
    DEFINE_INTERRUPT_CALLBACK(group, on_other, data) { chanend_in_word(other); }
    DEFINE_INTERRUPT_CALLBACK(group, on_one, data) {
        BODY
    }
    static void wait_here(void) { delay_ticks(3000); }
    DECLARE_JOB(listens, (void));
    void listens(void) {
        triggerable_setup_interrupt_callback(one, NULL, INTERRUPT_CALLBACK(on_one));
        triggerable_setup_interrupt_callback(other, NULL, INTERRUPT_CALLBACK(on_other));
        triggerable_enable_trigger(one);
        triggerable_enable_trigger(other);
        interrupt_unmask_all();
        wait_here();
        printf("listens ends\\n");
    }
    int main(void) {
        channel_t c = chan_alloc(), d = chan_alloc();
        one = c.end_a;
        other = d.end_a;
        const xc_job_t job = {xc_run_listens, NULL, "listens"};
        xc_fork(1, &job);
        delay_ticks(100);
        chanend_out_word(c.end_b, 1);
        delay_ticks(500);
        chanend_out_word(d.end_b, 1);
        delay_ticks(500);
        printf("main goes on\\n");
        return 0;
    }
"""
IN_DEVICE_TIME = pytest.mark.parametrize("device_time", [False, True], ids=["plain", "device"])


@IN_DEVICE_TIME
@pytest.mark.parametrize(
    ("body", "report"),
    [
        (
            "chanend_in_word(one); interrupt_unmask_all(); delay_ticks(1000);",
            "on_other on chanend 0x80000302 interrupts on_one on chanend 0x80000102",
        ),
        (
            "interrupt_unmask_all(); chanend_in_word(one);",
            "on_one on chanend 0x80000102 interrupts on_one on chanend 0x80000102",
        ),
    ],
)
def test_an_interrupt_of_a_callback_that_has_unmasked_them_traps(
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    body: str,
    report: str,
    *,
    device_time: bool,
) -> None:
    text = NESTED.replace("BODY", body)
    assert run_c(tmp_path, HEAD + text, RunSettings(takes_chip_time=device_time)) == TRAPPED
    assert capfd.readouterr().out == "main goes on\n"
    assert (
        f"ECALL (8): {report}, which has unmasked interrupts: the way back to what that interrupted is lost, "
        "as lib_xcore saves neither SPC nor SSR, isr in on_one at program.c:8, which interrupted wait_here "
        "at program.c:10; the core is halted"
    ) in caplog.text


@IN_DEVICE_TIME
def test_a_callback_may_unmask_interrupts_while_none_comes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], *, device_time: bool
) -> None:
    body = """
        chanend_in_word(one);
        unsigned before = status();
        interrupt_unmask_all();
        unsigned unmasked = status();
        interrupt_mask_all();
        unsigned masked = status();
        delay_ticks(2000);
        printf("%u %u %u\\n", before, unmasked, masked);
    """
    status = """
    static unsigned status(void) {
        unsigned interrupts;
        asm volatile("getsr r11, 2\\n\\tmov %0, r11" : "=r"(interrupts) : : "r11");
        return interrupts;
    }
    """
    text = status + NESTED.replace("BODY", body)
    assert run_c(tmp_path, HEAD + text, RunSettings(takes_chip_time=device_time)) == 0
    assert capfd.readouterr().out.splitlines() == ["main goes on", "0 2 0", "listens ends"]


# In device time the wrapper of a callback takes 70 clocks of 600 MHz before it, and 40 after it.

TIMED = """
    static hwtimer_t timer, own;
    static void sees(const char *what) { printf("%s at %u\\n", what, (unsigned)get_reference_time()); }
    DEFINE_INTERRUPT_CALLBACK(group, on_time, data) {
        sees("on_time");
        triggerable_disable_trigger(timer);
        hwtimer_delay(own, 100);
    }
    static void interrupted_at(uint32_t tick) {
        own = hwtimer_alloc();
        timer = hwtimer_alloc();
        hwtimer_setup_interrupt_callback(timer, tick - 1, NULL, INTERRUPT_CALLBACK(on_time));
        triggerable_enable_trigger(timer);
        interrupt_unmask_all();
    }
"""


def _in_device_time(folder: Path, capfd: pytest.CaptureFixture[str], text: str, seed: int = 0) -> list[str]:
    assert run_c(folder, HEAD + TIMED + text, RunSettings(takes_chip_time=True, seed=seed)) == 0
    return capfd.readouterr().out.splitlines()


@pytest.mark.parametrize(
    "waits",
    [
        "chanend_in_word(c);",
        """
        chanend_t other = chanend_alloc();
        SELECT_RES(CASE_THEN(c, word), CASE_THEN(other, never)) {
        word:
            chanend_in_word(c);
            break;
        never:
            break;
        }
        """,
    ],
    ids=["input", "select"],
)
@pytest.mark.parametrize(
    ("tick", "ends"),
    [(500, 1002), (990, 1111)],
)
def test_a_callback_begins_and_ends_at_its_ticks_while_the_core_waits(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], waits: str, tick: int, ends: int
) -> None:
    text = f"""
    static void listens(chanend_t c) {{
        interrupted_at({tick});
        {waits}
        sees("main");
    }}
    DECLARE_JOB(sends, (chanend_t));
    void sends(chanend_t c) {{
        hwtimer_wait_until(hwtimer_alloc(), 999);
        chanend_out_word(c, 5);
    }}
    int main(void) {{
        channel_t c = chan_alloc();
        PAR_JOBS(PJOB(listens, (c.end_a)), PJOB(sends, (c.end_b)));
        return 0;
    }}
    """
    assert _in_device_time(tmp_path, capfd, text) == [f"on_time at {tick + 12}", f"main at {ends}"]


def test_a_port_outputs_on_while_a_callback_runs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    int main(void) {
        port_t p = XS1_PORT_1A;
        xclock_t clock = XS1_CLKBLK_1;
        clock_enable(clock);
        clock_set_divide(clock, 50); // a period of 100 ticks
        port_enable(p);
        port_set_clock(p, clock);
        port_set_buffered(p);
        port_set_transfer_width(p, 8);
        interrupted_at(850);
        clock_start(clock);
        sees("begin");
        for (int i = 0; i < 3; i++) {
            port_out(p, 0x55);
            sees("out");
        }
        port_sync(p);
        sees("sync");
        return 0;
    }
    """
    # Words are loaded at ticks 110, 910 and 1710.
    assert _in_device_time(tmp_path, capfd, text) == [
        "begin at 10",
        "out at 11",
        "out at 110",
        "on_time at 862",
        "out at 971",
        "sync at 2510",
    ]


def test_a_core_that_does_not_wait_is_interrupted_between_two_verbs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
    int main(void) {
        chanend_t c = chanend_alloc();
        chanend_set_dest(c, 0x80001F02);
        interrupted_at(100);
        for (int i = 0; i < 80; i++) {
            chanend_out_word(c, 0);
        }
        sees("main");
        return 0;
    }
    """
    assert _in_device_time(tmp_path, capfd, text) == ["on_time at 112", "main at 261"]


def test_unmasking_runs_what_is_due_in_device_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    int main(void) {
        interrupted_at(500);
        interrupt_mask_all();
        hwtimer_wait_until(hwtimer_alloc(), 1000);
        sees("masked");
        interrupt_unmask_all();
        sees("unmasked");
        return 0;
    }
    """
    assert _in_device_time(tmp_path, capfd, text) == [
        "masked at 1001",
        "on_time at 1014",
        "unmasked at 1123",
    ]


def test_runs_of_any_seed_are_equal_in_device_time(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    static chanend_t one, two, three;
    DEFINE_INTERRUPT_CALLBACK(group, on_one, data) {
        printf("one %u at %u\\n", (unsigned)chanend_in_word(one), (unsigned)get_reference_time());
    }
    DEFINE_INTERRUPT_CALLBACK(group, on_two, data) {
        printf("two %u at %u\\n", (unsigned)chanend_in_word(two), (unsigned)get_reference_time());
    }
    static void listens(void) {
        triggerable_setup_interrupt_callback(one, NULL, INTERRUPT_CALLBACK(on_one));
        triggerable_setup_interrupt_callback(two, NULL, INTERRUPT_CALLBACK(on_two));
        triggerable_enable_trigger(one);
        triggerable_enable_trigger(two);
        interrupt_unmask_all();
        for (int i = 0; i < 5; i++) chanend_in_word(three);
    }
    DECLARE_JOB(sends, (chanend_t));
    void sends(chanend_t c) {
        hwtimer_t t = hwtimer_alloc();
        for (unsigned i = 0; i < 5; i++) {
            hwtimer_wait_until(t, 1000 * (i + 1));
            chanend_out_word(c, i);
        }
    }
    int main(void) {
        channel_t c = chan_alloc(), d = chan_alloc(), e = chan_alloc();
        one = c.end_a;
        two = d.end_a;
        three = e.end_a;
        PAR_JOBS(PJOB(listens, ()), PJOB(sends, (c.end_b)), PJOB(sends, (d.end_b)), PJOB(sends, (e.end_b)));
        return 0;
    }
    """
    runs = [_in_device_time(tmp_path, capfd, text, seed) for seed in range(3)]
    assert len(runs[0]) == 10
    assert runs == runs[:1] * 3


@IN_DEVICE_TIME
def test_on_a_live_clock_a_callback_is_not_early(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], *, device_time: bool
) -> None:
    text = """
    int main(void) {
        interrupted_at(2000000);
        hwtimer_wait_until(hwtimer_alloc(), 3000000);
        sees("main");
        return 0;
    }
    """
    settings = RunSettings(is_live=True, takes_chip_time=device_time)
    assert run_c(tmp_path, HEAD + TIMED + text, settings) == 0
    seen = [line.split(" at ") for line in capfd.readouterr().out.splitlines()]
    assert [what for what, _ in seen] == ["on_time", "main"]
    due = 2000000, 3000000
    assert [int(tick) >= each for (_, tick), each in zip(seen, due, strict=True)] == [True, True]


def test_what_a_callback_prints_tells_its_core(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
    DEFINE_INTERRUPT_CALLBACK(group, on_word, data) {
        printf("%u on core %u\\n", (unsigned)chanend_in_word(*(chanend_t *)data), get_logical_core_id());
    }
    DECLARE_JOB(listens, (chanend_t));
    void listens(chanend_t c) {
        triggerable_setup_interrupt_callback(c, &c, INTERRUPT_CALLBACK(on_word));
        triggerable_enable_trigger(c);
        interrupt_unmask_all();
        delay_ticks(10);
    }
    static void sends(chanend_t c) { chanend_out_word(c, 5); }
    int main(void) {
        channel_t c = chan_alloc();
        PAR_JOBS(PJOB(sends, (c.end_b)), PJOB(listens, (c.end_a)));
        return 0;
    }
    """
    assert _output(tmp_path, capfd, text) == "5 on core 1\n"


def test_a_uart_receives_by_interrupts_of_a_port_and_a_timer(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
    #include <xcore/port.h>
    enum { BIT = 868 };
    typedef struct {
        port_t pin;
        hwtimer_t timer;
        unsigned bits, byte, count;
        uint32_t time;
        char text[3];
    } uart_t;
    DEFINE_INTERRUPT_CALLBACK(group, on_event, data) {
        uart_t *uart = (uart_t *)data;
        if (uart->bits == 0) {
            uart->time = get_reference_time() + BIT / 2;
            triggerable_set_trigger_enabled(uart->pin, 0);
            port_clear_trigger_in(uart->pin);
            hwtimer_set_trigger_time(uart->timer, uart->time);
            triggerable_set_trigger_enabled(uart->timer, 1);
        } else {
            unsigned level = port_in(uart->pin);
            if (uart->bits > 1) uart->byte = uart->byte >> 1 | level << 7;
            uart->time += BIT;
            hwtimer_set_trigger_time(uart->timer, uart->time);
        }
        if (uart->bits++ == 9) {
            uart->text[uart->count++] = (char)uart->byte;
            uart->bits = 0;
            triggerable_set_trigger_enabled(uart->timer, 0);
            port_set_trigger_in_equal(uart->pin, 0);
            delay_ticks(BIT / 2);
            triggerable_set_trigger_enabled(uart->pin, 1);
        }
    }
    int main(void) {
        uart_t uart = {.pin = XS1_PORT_1F, .timer = hwtimer_alloc()};
        port_enable(uart.pin);
        port_in(uart.pin);
        port_set_trigger_in_equal(uart.pin, 0);
        port_setup_interrupt_callback(uart.pin, &uart, INTERRUPT_CALLBACK(on_event));
        triggerable_setup_interrupt_callback(uart.timer, &uart, INTERRUPT_CALLBACK(on_event));
        triggerable_enable_trigger(uart.pin);
        interrupt_unmask_all();
        delay_ticks(30000);
        printf("%u: %s\\n", uart.count, uart.text);
        return 0;
    }
    """
    frames = [bit for text in "Hi" for bit in (0, *(ord(text) >> place & 1 for place in range(8)), 1)]
    changes = [(1000 + 868 * place, level) for place, level in enumerate(frames)]
    assert run_c(tmp_path, HEAD + text, outside=[drives("1F", (0, 1), *changes)]) == 0
    assert capfd.readouterr().out == "2: Hi\n"
