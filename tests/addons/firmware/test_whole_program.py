"""Programs in C as firmware people write them: what they print and return on a node."""

import os
from pathlib import Path

import pytest

from aisrv.addons.firmware.errors import FirmwareError
from aisrv.addons.firmware.whole_program import RunSettings
from aisrv.xcore.traps import Deadlock, Trap
from tests.support.benches.c_programs import CASE, COMPILERS, one_of, run_c


@pytest.mark.parametrize("compiler", COMPILERS)
def test_jobs_exchange_words(tmp_path: Path, capfd: pytest.CaptureFixture[str], compiler: str) -> None:
    text = """
        DECLARE_JOB(square, (chanend_t, unsigned));
        void square(chanend_t c, unsigned count) {
            while (count--) { unsigned n = chan_in_word(c); chan_out_word(c, n * n); }
        }
        void ask(chanend_t c) {
            for (unsigned n = 1; n <= 3; n++) {
                chan_out_word(c, n);
                printf("%u ", (unsigned)chan_in_word(c));
            }
        }
        int main(void) {
            channel_t c = chan_alloc();
            PAR_JOBS(PJOB(ask, (c.end_a)), PJOB(square, (c.end_b, 3)));
            chan_free(c);
            return 7;
        }
    """
    assert run_c(tmp_path, text, compiler=compiler) == 7
    assert capfd.readouterr().out == "1 4 9 "


def test_each_kind_of_channel_takes_each_kind_of_value(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        static uint32_t words[3] = {1, 0x80000000, 0xfffffffe};
        DECLARE_JOB(sends, (chanend_t));
        void sends(chanend_t c) {
            chan_out_byte(c, 200);
            chan_out_buf_word(c, words, 3);
            chan_out_buf_byte(c, (const uint8_t *)"abcde", 5);
            s_chan_out_word(c, 5);
            s_chan_out_byte(c, 6);
            s_chan_out_buf_word(c, words, 3);
            s_chan_out_buf_byte(c, (const uint8_t *)"fghij", 5);
            s_chan_out_ct_end(c);
            transacting_chanend_t tc = chan_init_transaction_master(c);
            t_chan_out_word(&tc, 7);
            t_chan_out_buf_byte(&tc, (const uint8_t *)"klm", 3);
            t_chan_out_byte(&tc, t_chan_in_byte(&tc) + 1);
            t_chan_out_buf_word(&tc, words, 3);
            chan_complete_transaction(tc);
        }
        static void show(const uint32_t w[3], const char *text) {
            printf("%x %x %x %s\\n", (unsigned)w[0], (unsigned)w[1], (unsigned)w[2], text);
        }
        void takes(chanend_t c) {
            uint32_t w[3];
            uint8_t text[6] = "";
            printf("%u\\n", chan_in_byte(c));
            chan_in_buf_word(c, w, 3);
            chan_in_buf_byte(c, text, 5);
            show(w, (char *)text);
            printf("%u", (unsigned)s_chan_in_word(c));
            printf("%u\\n", s_chan_in_byte(c));
            s_chan_in_buf_word(c, w, 3);
            s_chan_in_buf_byte(c, text, 5);
            s_chan_check_ct_end(c);
            show(w, (char *)text);
            transacting_chanend_t tc = chan_init_transaction_slave(c);
            memset(text, 0, 6);
            printf("%u\\n", (unsigned)t_chan_in_word(&tc));
            t_chan_in_buf_byte(&tc, text, 3);
            t_chan_out_byte(&tc, 41);
            printf("%u\\n", t_chan_in_byte(&tc));
            t_chan_in_buf_word(&tc, w, 3);
            chan_complete_transaction(tc);
            show(w, (char *)text);
        }
        int main(void) {
            channel_t c = chan_alloc();
            PAR_JOBS(PJOB(takes, (c.end_a)), PJOB(sends, (c.end_b)));
            return 0;
        }
    """
    assert run_c(tmp_path, text) == 0
    words = "1 80000000 fffffffe"
    assert capfd.readouterr().out == f"200\n{words} abcde\n56\n{words} fghij\n7\n42\n{words} klm\n"


def test_control_tokens_are_seen_before_they_are_taken(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        int main(void) {
            channel_t c = chan_alloc();
            chanend_out_byte(c.end_a, 'a');
            chanend_out_control_token(c.end_a, 12);
            printf("%d ", chanend_test_control_token_next_byte(c.end_b));
            printf("%d ", chanend_test_control_token_next_word(c.end_b));
            printf("%c ", chanend_in_byte(c.end_b));
            printf("%d ", chanend_test_control_token_next_byte(c.end_b));
            printf("%d ", chanend_in_control_token(c.end_b));
            chanend_out_end_token(c.end_a);
            chanend_check_end_token(c.end_b);
            printf("%d\\n", chanend_test_dest_local(c.end_a));
            return chanend_get_dest(c.end_a) != c.end_b;
        }
    """
    assert run_c(tmp_path, text) == 0
    assert capfd.readouterr().out == "0 2 a 1 12 1\n"


def test_tiles_have_programs_of_their_own_and_a_channel(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        static int shared = 1;
        void main_tile0(chanend_t c) {
            shared = 5;
            for (int i = 0; i < 200; i++) chanend_out_word(c, i);
            chanend_out_end_token(c);
            printf("tile 0 got %u\\n", (unsigned)chan_in_word(c));
        }
        void main_tile1(chanend_t c) {
            unsigned sum = 0;
            for (int i = 0; i < 200; i++) sum += chanend_in_word(c);
            chanend_check_end_token(c);
            chan_out_word(c, sum + shared);
        }
    """
    assert run_c(tmp_path, text) == 0
    assert capfd.readouterr().out == "tile 0 got 19901\n"


def test_a_select_takes_what_comes_first(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        DECLARE_JOB(speak, (chanend_t));
        void speak(chanend_t c) {
            delay_microseconds(3);
            chan_out_word(c, 8);
            delay_microseconds(20);
            chan_out_word(c, 9);
        }
        void listen(chanend_t c) {
            hwtimer_t t = hwtimer_alloc();
            unsigned begun = hwtimer_get_time(t), words = 0;
            hwtimer_set_trigger_time(t, begun + 1000);
            SELECT_RES(CASE_THEN(c, word), CASE_GUARD_THEN(t, words == 1, time)) {
            word: printf("word %u ", (unsigned)chan_in_word(c));
                printf("at %u\\n", (unsigned)get_reference_time() - begun);
                if (++words < 2) continue;
                break;
            time: printf("time at %u\\n", (unsigned)hwtimer_get_time(t) - begun);
                hwtimer_clear_trigger_time(t);
                words++;
                hwtimer_wait_until(t, begun + 2000);
                words--;
                hwtimer_set_trigger_time(t, begun + 100000);
                continue;
            }
            hwtimer_free(t);
        }
        int main(void) {
            channel_t c = chan_alloc();
            PAR_JOBS(PJOB(listen, (c.end_a)), PJOB(speak, (c.end_b)));
        }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out == "word 8 at 301\ntime at 1001\nword 9 at 2302\n"


def test_a_select_has_defaults_and_guards(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            channel_t a = chan_alloc(), b = chan_alloc();
            int turns = 0;
            chanend_out_word(a.end_a, 1);
            chanend_out_word(b.end_a, 2);
            SELECT_RES_ORDERED(CASE_NGUARD_THEN(a.end_b, turns < 1, first), CASE_THEN(b.end_b, second),
                               DEFAULT_GUARD_THEN(turns > 1, none)) {
            first: turns++; printf("%u ", (unsigned)chanend_in_word(a.end_b)); continue;
            second: turns++; printf("%u ", (unsigned)chanend_in_word(b.end_b)); continue;
            none: puts("none"); break;
            }
            return turns;
        }
    """
    assert run_c(tmp_path, text) == 2
    assert capfd.readouterr().out == "2 1 none\n"


def test_events_by_hand(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            channel_t a = chan_alloc(), b = chan_alloc();
            int turns = 0;
            TRIGGERABLE_SETUP_EVENT_VECTOR(a.end_b, on_a);
            TRIGGERABLE_SETUP_EVENT_VECTOR(b.end_b, on_b);
            chanend_out_word(a.end_a, 1);
            chanend_out_word(b.end_a, 2);
            triggerable_disable_all();
            triggerable_enable_trigger(b.end_b);
            for (;;) {
                if (turns == 2) {
                    TRIGGERABLE_TAKE_EVENT(on_a, on_b);
                    break;
                }
                TRIGGERABLE_WAIT_EVENT(on_a, on_b);
            on_a: printf("a%u ", (unsigned)chanend_in_word(a.end_b)); turns++; continue;
            on_b: printf("b%u ", (unsigned)chanend_in_word(b.end_b)); turns++;
                triggerable_set_trigger_enabled(a.end_b, 1);
                triggerable_disable_trigger(b.end_b);
                continue;
            }
            puts("done");
        }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out == "b2 a1 done\n"


def test_locks_guard_memory_that_cores_share(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        static unsigned total;
        DECLARE_JOB(adds, (lock_t, unsigned));
        void adds(lock_t l, unsigned amount) {
            for (int i = 0; i < 10; i++) {
                lock_acquire(l);
                unsigned before = total;
                delay_ticks(10);
                total = before + amount;
                lock_release(l);
            }
        }
        int main(void) {
            lock_t l = lock_alloc();
            PAR_JOBS(PJOB(adds, (l, 1)), PJOB(adds, (l, 100)), PJOB(adds, (l, 10000)));
            lock_free(l);
            printf("%u\\n", total);
        }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out == "101010\n"


def test_jobs_within_jobs(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        static int order[9], count;
        DECLARE_JOB(leaf, (int));
        void leaf(int n) { order[count++] = n; delay_ticks(100 * n); }
        DECLARE_JOB(none, (void));
        void none(void) { order[count++] = 9; }
        DECLARE_JOB(branch, (int, int));
        void branch(int a, int b) { PAR_JOBS(PJOB(leaf, (a)), PJOB(leaf, (b)), PJOB(none, ())); }
        int main(void) {
            PAR_JOBS(PJOB(branch, (1, 2)), PJOB(branch, (3, 4)));
            int sum = 0;
            for (int i = 0; i < count; i++) sum += order[i];
            printf("%d jobs, %d\\n", count, sum);
        }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out == "6 jobs, 28\n"


EIGHT = """
    static int begun;
    DECLARE_JOB(wait, (int));
    void wait(int ticks) { begun++; delay_ticks(ticks); }
    DECLARE_JOB(last, (int));
    void last(int more) {
        wait(8);
        if (more) PAR_JOBS(PJOB(wait, (1)), PJOB(wait, (2)));
    }
    static void eight(int more) {
        PAR_JOBS(PJOB(wait, (1)), PJOB(wait, (2)), PJOB(wait, (3)), PJOB(wait, (4)), PJOB(wait, (5)),
                 PJOB(wait, (6)), PJOB(wait, (70)), PJOB(last, (more)));
        printf("%d\\n", begun);
    }
    int main(void) { eight(MORE); return 0; }
"""


def test_eight_jobs_run_side_by_side(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_c(tmp_path, EIGHT.replace("MORE", "0")) == 0
    assert capfd.readouterr().out == "8\n"


def test_a_ninth_core_is_not_there(tmp_path: Path) -> None:
    text = EIGHT.replace("MORE", "1").replace("(70)", "(7)").replace("wait(8)", "delay_ticks(0)")
    reason = r"tile 0 has 0 logical cores left, 1 are wanted, in last at program\.c:7"
    with pytest.raises(Trap, match=reason):
        run_c(tmp_path, text, RunSettings(stops_at_trap=True))


def test_a_core_that_nobody_joins(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        void alone(void *c) {
            delay_microseconds(1);
            chan_out_word((chanend_t)(uintptr_t)c, 3);
            puts("alone");
        }
        int main(void) {
            channel_t c = chan_alloc();
            run_async(alone, (void *)(uintptr_t)c.end_a, NULL);
            printf("%u\\n", (unsigned)chan_in_word(c.end_b));
        }
    """
    run_c(tmp_path, text)
    assert sorted(capfd.readouterr().out.splitlines()) == ["3", "alone"]


def test_groups_of_threads(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        static int order[4], count;
        static void adds(void *number) { delay_ticks(100); order[count++] = (int)(uintptr_t)number; }
        int main(void) {
            threadgroup_t group = thread_group_alloc();
            thread_group_add(group, adds, (void *)1, NULL);
            thread_group_add(group, adds, (void *)2, NULL);
            printf("%d ", count);
            thread_group_start(group);
            thread_group_wait(group);
            printf("%d ", count);
            thread_group_start(group);
            thread_group_wait_and_free(group);
            xthread_wait_and_free(xthread_alloc_and_start(adds, (void *)3, NULL));
            printf("%d %d\\n", count, order[4]);
        }
    """
    run_c(tmp_path, text.replace("order[4], count", "order[5], count"))
    assert capfd.readouterr().out == "0 2 5 3\n"


def test_a_group_has_as_many_threads_as_cores_are_free(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        static void waits(void *unused) { (void)unused; delay_ticks(9); }
        int main(void) {
            threadgroup_t group = thread_group_alloc();
            int count = 0;
            while (thread_group_try_add(group, waits, NULL, NULL)) count++;
            thread_group_start(group);
            thread_group_wait_and_free(group);
            int groups = 0;
            while (thread_group_alloc()) groups++;
            printf("%d threads, %d groups\\n", count, groups);
        }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out == "7 threads, 7 groups\n"


@pytest.mark.parametrize("groups", ["thread_group_alloc()", "group"])
def test_cores_that_add_threads_at_once_take_no_core_twice(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], groups: str
) -> None:
    text = """
        static threadgroup_t group;
        static int added, ran;
        static void counts(void *unused) { (void)unused; ran++; delay_ticks(9); }
        DECLARE_JOB(adds, (threadgroup_t));
        void adds(threadgroup_t g) {
            delay_ticks(9);
            while (thread_group_try_add(g, counts, NULL, NULL)) added++;
        }
        int main(void) {
            group = thread_group_alloc();
            threadgroup_t one = GROUPS, two = GROUPS;
            PAR_JOBS(PJOB(adds, (one)), PJOB(adds, (two)));
            thread_group_start(one);
            if (two != one) thread_group_start(two);
            thread_group_wait(one);
            if (two != one) thread_group_wait(two);
            printf("%d added, %d ran\\n", added, ran);
        }
    """
    run_c(tmp_path, text.replace("GROUPS", groups))
    assert capfd.readouterr().out == "6 added, 6 ran\n"


WRONG = {
    "thread_group_start(5)": "a thread group that is not allocated",
    "threadgroup_t g = thread_group_alloc(); thread_group_free(g); thread_group_free(g)": "not allocated",
    "threadgroup_t g = thread_group_alloc(); thread_group_start(g); thread_group_free(g)": (
        "a thread group that runs is freed"
    ),
}


@pytest.mark.parametrize("text", WRONG)
def test_groups_that_are_used_wrongly_trap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    monkeypatch.setenv(CASE, str(list(WRONG).index(text)))
    with pytest.raises(Trap, match=WRONG[text]):
        run_c(tmp_path, f"int main(void) {{ {one_of(WRONG)} }}", RunSettings(stops_at_trap=True))


def test_functions_without_arguments_by_pointers(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        void say(void *text) { printf("%s ", (const char *)text); }
        int main(void) { PAR_FUNCS(PFUNC(say, "a"), PFUNC(say, "b")); fflush(stdout); return 0; }
    """
    run_c(tmp_path, text)
    assert sorted(capfd.readouterr().out.split()) == ["a", "b"]


def test_a_loop_that_reads_the_clock_lets_time_pass(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    text = """
        int main(void) {
            unsigned begun = get_reference_time(), reads = 0;
            while (get_reference_time() - begun < 100000000) reads++;
            printf("%d\\n", reads > 10 && reads < 100000);
        }
    """
    run_c(tmp_path, text)
    assert capfd.readouterr().out == "1\n"


def test_output_without_formats(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            printstr("a"); printchar('b'); printint(-3); printuint(4000000000u); printhexln(255);
            printstrln("c"); printcharln('d'); printintln(-5); printuintln(6); printhex(16);
            printllong(-1ll << 40);
            printllongln(7);
            printf("%x %x %d %d\\n", bitrev(1), byterev(0x01020304), clz(1), clz(0));
        }
    """
    run_c(tmp_path, text)
    assert (
        capfd.readouterr().out == "ab-34000000000ff\nc\nd\n-5\n6\n10-10995116277767\n80000000 4030201 31 32\n"
    )


def test_exit_ends_the_run_with_its_code(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    text = """
        DECLARE_JOB(stuck, (chanend_t));
        void stuck(chanend_t c) { chan_in_word(c); }
        void leaves(void) { delay_ticks(5); exit(3); }
        int main(void) {
            channel_t c = chan_alloc();
            PAR_JOBS(PJOB(leaves, ()), PJOB(stuck, (c.end_a)));
        }
    """
    assert run_c(tmp_path, text) == 3
    assert not caplog.records


def test_cores_that_wait_for_each_other_are_reported(tmp_path: Path) -> None:
    text = """
        int main(void) { channel_t c = chan_alloc(); return (int)chan_in_word(c.end_a); }
    """
    with pytest.raises(Deadlock, match=r"tile 0 core 0 \(main\): chan_in_word on chanend 0x80000"):
        run_c(tmp_path, text)


def test_a_trap_may_stop_the_run(tmp_path: Path) -> None:
    text = "int main(void) { chanend_t c = chanend_alloc(); chan_out_word(c, 1); }"
    with pytest.raises(Trap, match=r"has no destination, in main at program\.c:1"):
        run_c(tmp_path, text, RunSettings(stops_at_trap=True))


def test_a_program_without_a_main(tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match=r"^the program of tile 0 has neither main nor main_tile0$"):
        run_c(tmp_path, "void main_tile1(chanend_t c) {}")


RACE = """
    DECLARE_JOB(says, (chanend_t, int));
    void says(chanend_t c, int who) { for (int i = 0; i < 5; i++) chan_out_word(c, who); }
    void hears(chanend_t a, chanend_t b, chanend_t c) {
        for (int left = 15; left--;) {
            SELECT_RES(CASE_THEN(a, on_a), CASE_THEN(b, on_b), CASE_THEN(c, on_c)) {
            on_a: printf("%u", (unsigned)chan_in_word(a)); break;
            on_b: printf("%u", (unsigned)chan_in_word(b)); break;
            on_c: printf("%u", (unsigned)chan_in_word(c)); break;
            }
        }
        puts("");
    }
    int main(void) {
        channel_t a = chan_alloc(), b = chan_alloc(), c = chan_alloc();
        PAR_JOBS(PJOB(hears, (a.end_a, b.end_a, c.end_a)), PJOB(says, (a.end_b, 1)), PJOB(says, (b.end_b, 2)),
                 PJOB(says, (c.end_b, 3)));
    }
"""


def test_a_seed_decides_on_the_order(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    orders = []
    for seed in (1, 1, 1, 2, 3):
        run_c(tmp_path, RACE, RunSettings(seed=seed))
        orders.append(capfd.readouterr().out)
    assert orders[0] == orders[1] == orders[2]
    assert len(set(orders[2:])) > 1


def test_on_the_time_of_this_machine(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    text = """
        int main(void) {
            unsigned begun = get_reference_time();
            delay_milliseconds(2);
            printf("%d\\n", get_reference_time() - begun > 200000);
        }
    """
    run_c(tmp_path, text, RunSettings(is_live=True))
    assert capfd.readouterr().out == "1\n"


def test_a_run_keeps_to_one_processor_and_gives_the_others_back(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    allowed = os.sched_getaffinity(0)
    text = """
        #include <sys/syscall.h>
        long syscall(long number, ...);
        int main(void) {
            unsigned long processors[16] = {0};
            int count = 0;
            syscall(SYS_sched_getaffinity, 0, sizeof processors, processors);
            for (int i = 0; i < 16; i++) count += __builtin_popcountl(processors[i]);
            printf("%d\\n", count);
        }
    """
    run_c(tmp_path, text)
    run_c(tmp_path, text, RunSettings(is_live=True))
    assert capfd.readouterr().out == f"1\n{len(allowed)}\n"
    assert os.sched_getaffinity(0) == allowed


def test_what_was_printed_is_out_as_a_program_exits_at_once(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert run_c(tmp_path, 'int main(void) { printf("last words"); _Exit(3); }') == 3
    assert capfd.readouterr().out == "last words"
