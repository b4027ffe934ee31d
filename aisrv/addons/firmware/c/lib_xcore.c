/* The functions of lib_xcore: each a verb of the substrate, or what this tile knows alone. */
#include <print.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <xclib.h>
#include <xcore/assert.h>
#include <xcore/chanend.h>
#include <xcore/channel.h>
#include <xcore/channel_streaming.h>
#include <xcore/channel_transaction.h>
#include <xcore/hwtimer.h>
#include <xcore/lock.h>
#include <xcore/parallel.h>
#include <xcore/select.h>
#include <xcore/triggerable.h>

#include "interrupts.h"
#include "runtime.h"

/* Channel ends. An output to another tile is posted: nothing of this tile can depend on when it is done. */

static void out(uint32_t verb, chanend_t c, uint32_t value) {
    if (runtime_leaves_tile(c)) {
        runtime_post(verb, c, value);
    } else {
        runtime_verb(verb, c, value);
    }
}

chanend_t chanend_alloc(void) {
    chanend_t c = runtime_verb(VERB_CHANEND_ALLOC, 0, 0);
    if (c) runtime_set_destination(c, 0);
    return c;
}
void chanend_free(chanend_t c) { runtime_verb(VERB_CHANEND_FREE, c, 0); }
void chanend_set_dest(chanend_t c, chanend_t destination) {
    runtime_verb(VERB_SETD, c, destination);
    runtime_set_destination(c, destination);
}
chanend_t chanend_get_dest(chanend_t c) { return runtime_destination(c); }
int chanend_test_dest_local(chanend_t c) { return runtime_destination(c) != 0 && !runtime_leaves_tile(c); }

void chanend_out_word(chanend_t c, uint32_t word) { out(VERB_OUTUINT, c, word); }
void chanend_out_byte(chanend_t c, char byte) { out(VERB_OUTUCHAR, c, (uint8_t)byte); }
void chanend_out_control_token(chanend_t c, char token) { out(VERB_OUTCT, c, (uint8_t)token); }
void chanend_out_end_token(chanend_t c) { out(VERB_OUTCT, c, XS1_CT_END); }
uint32_t chanend_in_word(chanend_t c) { return runtime_verb(VERB_INUINT, c, 0); }
char chanend_in_byte(chanend_t c) { return (char)runtime_verb(VERB_INUCHAR, c, 0); }
char chanend_in_control_token(chanend_t c) { return (char)runtime_verb(VERB_INCT, c, 0); }
void chanend_check_control_token(chanend_t c, char token) { runtime_verb(VERB_CHKCT, c, (uint8_t)token); }
void chanend_check_end_token(chanend_t c) { runtime_verb(VERB_CHKCT, c, XS1_CT_END); }
int chanend_test_control_token_next_byte(chanend_t c) { return (int)runtime_verb(VERB_TESTCT, c, 0); }
int chanend_test_control_token_next_word(chanend_t c) { return (int)runtime_verb(VERB_TESTWCT, c, 0); }

static void out_all(uint32_t verb, chanend_t c, const void *data, size_t bytes) {
    runtime_verb_with(verb, c, 0, data, bytes, NULL, 0);
}
static void in_all(uint32_t verb, chanend_t c, uint32_t count, void *data, size_t bytes) {
    runtime_verb_with(verb, c, count, NULL, 0, data, bytes);
}

/* Channels. */

static int alloc_two(chanend_t *a, chanend_t *b) {
    *a = chanend_alloc();
    *b = *a ? chanend_alloc() : 0;
    if (*b) {
        chanend_set_dest(*a, *b);
        chanend_set_dest(*b, *a);
        return 1;
    }
    if (*a) chanend_free(*a);
    *a = 0;
    return 0;
}

channel_t chan_alloc(void) {
    channel_t channel;
    alloc_two(&channel.end_a, &channel.end_b);
    return channel;
}
void chan_free(channel_t channel) {
    chanend_free(channel.end_a);
    chanend_free(channel.end_b);
}
void chan_out_word(chanend_t c, uint32_t word) { runtime_verb(VERB_CHAN_OUT_WORD, c, word); }
void chan_out_byte(chanend_t c, uint8_t byte) { runtime_verb(VERB_CHAN_OUT_BYTE, c, byte); }
void chan_out_buf_word(chanend_t c, const uint32_t words[], size_t count) {
    out_all(VERB_CHAN_OUT_BUF_WORD, c, words, 4 * count);
}
void chan_out_buf_byte(chanend_t c, const uint8_t bytes[], size_t count) {
    out_all(VERB_CHAN_OUT_BUF_BYTE, c, bytes, count);
}
uint32_t chan_in_word(chanend_t c) { return runtime_verb(VERB_CHAN_IN_WORD, c, 0); }
uint8_t chan_in_byte(chanend_t c) { return (uint8_t)runtime_verb(VERB_CHAN_IN_BYTE, c, 0); }
void chan_in_buf_word(chanend_t c, uint32_t words[], size_t count) {
    in_all(VERB_CHAN_IN_BUF_WORD, c, (uint32_t)count, words, 4 * count);
}
void chan_in_buf_byte(chanend_t c, uint8_t bytes[], size_t count) {
    in_all(VERB_CHAN_IN_BUF_BYTE, c, (uint32_t)count, bytes, count);
}

streaming_channel_t s_chan_alloc(void) {
    streaming_channel_t channel;
    alloc_two(&channel.end_a, &channel.end_b);
    return channel;
}
void s_chan_free(streaming_channel_t channel) {
    chanend_out_end_token(channel.end_a);
    chanend_out_end_token(channel.end_b);
    chanend_check_end_token(channel.end_a);
    chanend_check_end_token(channel.end_b);
    chanend_free(channel.end_a);
    chanend_free(channel.end_b);
}
void s_chan_out_word(chanend_t c, uint32_t word) { chanend_out_word(c, word); }
void s_chan_out_byte(chanend_t c, uint8_t byte) { chanend_out_byte(c, (char)byte); }
void s_chan_out_buf_word(chanend_t c, const uint32_t words[], size_t count) { out_all(VERB_OUTWORDS, c, words, 4 * count); }
void s_chan_out_buf_byte(chanend_t c, const uint8_t bytes[], size_t count) { out_all(VERB_OUTBYTES, c, bytes, count); }
uint32_t s_chan_in_word(chanend_t c) { return chanend_in_word(c); }
uint8_t s_chan_in_byte(chanend_t c) { return (uint8_t)chanend_in_byte(c); }
void s_chan_in_buf_word(chanend_t c, uint32_t words[], size_t count) {
    in_all(VERB_INWORDS, c, (uint32_t)count, words, 4 * count);
}
void s_chan_in_buf_byte(chanend_t c, uint8_t bytes[], size_t count) {
    in_all(VERB_INBYTES, c, (uint32_t)count, bytes, count);
}
void s_chan_out_ct(chanend_t c, uint8_t token) { chanend_out_control_token(c, (char)token); }
void s_chan_out_ct_end(chanend_t c) { chanend_out_end_token(c); }
uint8_t s_chan_in_ct(chanend_t c) { return (uint8_t)chanend_in_control_token(c); }
void s_chan_check_ct(chanend_t c, uint8_t token) { chanend_check_control_token(c, (char)token); }
void s_chan_check_ct_end(chanend_t c) { chanend_check_end_token(c); }

/* Transactions: where the direction changes, the side that sent closes its route with END and the other awaits it. */

transacting_chanend_t chan_init_transaction_master(chanend_t c) {
    transacting_chanend_t tc = {c, 0};
    chanend_out_end_token(c);
    return tc;
}
transacting_chanend_t chan_init_transaction_slave(chanend_t c) {
    transacting_chanend_t tc = {c, 1};
    chanend_check_end_token(c);
    return tc;
}
chanend_t chan_complete_transaction(transacting_chanend_t tc) {
    if (tc.last_out) chanend_out_end_token(tc.end);
    chanend_check_end_token(tc.end);
    if (!tc.last_out) chanend_out_end_token(tc.end);
    return tc.end;
}
static chanend_t turn_out(transacting_chanend_t *tc) {
    if (!tc->last_out) chanend_check_end_token(tc->end);
    tc->last_out = 1;
    return tc->end;
}
static chanend_t turn_in(transacting_chanend_t *tc) {
    if (tc->last_out) chanend_out_end_token(tc->end);
    tc->last_out = 0;
    return tc->end;
}
void t_chan_out_word(transacting_chanend_t *tc, uint32_t word) { chanend_out_word(turn_out(tc), word); }
void t_chan_out_byte(transacting_chanend_t *tc, uint8_t byte) { chanend_out_byte(turn_out(tc), (char)byte); }
void t_chan_out_buf_word(transacting_chanend_t *tc, const uint32_t words[], size_t count) {
    s_chan_out_buf_word(turn_out(tc), words, count);
}
void t_chan_out_buf_byte(transacting_chanend_t *tc, const uint8_t bytes[], size_t count) {
    s_chan_out_buf_byte(turn_out(tc), bytes, count);
}
uint32_t t_chan_in_word(transacting_chanend_t *tc) { return chanend_in_word(turn_in(tc)); }
uint8_t t_chan_in_byte(transacting_chanend_t *tc) { return (uint8_t)chanend_in_byte(turn_in(tc)); }
void t_chan_in_buf_word(transacting_chanend_t *tc, uint32_t words[], size_t count) {
    s_chan_in_buf_word(turn_in(tc), words, count);
}
void t_chan_in_buf_byte(transacting_chanend_t *tc, uint8_t bytes[], size_t count) {
    s_chan_in_buf_byte(turn_in(tc), bytes, count);
}

/* Timers: the tile keeps their trigger times. */

hwtimer_t hwtimer_alloc(void) {
    hwtimer_t t = runtime_verb(VERB_TIMER_ALLOC, 0, 0);
    if (t) interrupts_clear_trigger(t);
    return t;
}
void hwtimer_free(hwtimer_t t) { runtime_verb(VERB_TIMER_FREE, t, 0); }
uint32_t hwtimer_get_time(hwtimer_t t) {
    uint32_t time;
    return runtime_trigger(t, &time) ? runtime_verb(VERB_WAIT_AFTER, t, time) : runtime_read_clock();
}
uint32_t hwtimer_get_trigger_time(hwtimer_t t) {
    uint32_t time;
    runtime_trigger(t, &time);
    return time;
}
void hwtimer_set_trigger_time(hwtimer_t t, uint32_t time) { interrupts_set_trigger(t, time); }
void hwtimer_change_trigger_time(hwtimer_t t, uint32_t time) { interrupts_set_trigger(t, time); }
void hwtimer_clear_trigger_time(hwtimer_t t) { interrupts_clear_trigger(t); }
uint32_t hwtimer_wait_until(hwtimer_t t, uint32_t time) {
    interrupts_clear_trigger(t);
    return runtime_verb(VERB_WAIT_AFTER, t, time);
}
void hwtimer_delay(hwtimer_t t, uint32_t period) { hwtimer_wait_until(t, runtime_read_clock() + period); }
void hwtimer_free_xc_timer(void) {}
void hwtimer_realloc_xc_timer(void) {}
uint32_t get_reference_time(void) { return runtime_read_clock(); }

void delay_ticks_longlong(unsigned long long ticks) {
    const uint32_t most = 1u << 30;
    uint32_t time = runtime_read_clock();
    while (ticks) { /* on no timer: XC has one of its own for each core */
        uint32_t step = ticks > most ? most : (uint32_t)ticks;
        time += step;
        runtime_verb(VERB_WAIT_AFTER, 0, time);
        ticks -= step;
    }
}
void delay_ticks(unsigned ticks) { delay_ticks_longlong(ticks); }
void delay_seconds(unsigned seconds) { delay_ticks_longlong(seconds * 100000000ull); }
void delay_milliseconds(unsigned milliseconds) { delay_ticks_longlong(milliseconds * 100000ull); }
void delay_microseconds(unsigned microseconds) { delay_ticks_longlong(microseconds * 100ull); }

/* Locks. */

lock_t lock_alloc(void) { return runtime_verb(VERB_LOCK_ALLOC, 0, 0); }
void lock_free(lock_t l) { runtime_verb(VERB_LOCK_FREE, l, 0); }
void lock_acquire(lock_t l) { runtime_verb(VERB_LOCK_ACQUIRE, l, 0); }
void lock_release(lock_t l) { runtime_verb(VERB_LOCK_RELEASE, l, 0); }

/* Cores. A job goes by its number, the address of its function, and its name, 60 bytes, which may be empty. */

enum { MOST_JOBS = 8, NAME_BYTES = 60 };
typedef struct {
    uint32_t number;
    uint32_t address;
    char name[NAME_BYTES];
} job_record_t;

static job_record_t record_of(const xc_job_t *job) {
    const uint32_t address = (uint32_t)(uintptr_t)job->function;
    job_record_t record = {runtime_new_job(job->function, job->argument), address, ""};
    strncpy(record.name, job->name, NAME_BYTES - 1);
    return record;
}
uint32_t xc_fork(size_t count, const xc_job_t jobs[]) {
    job_record_t records[MOST_JOBS];
    for (size_t i = 0; i < count; i++) records[i] = record_of(&jobs[i]);
    return runtime_verb_with(VERB_FORK, (uint32_t)count, 0, records, count * sizeof *records, NULL, 0);
}
void xc_join(uint32_t join) { runtime_verb(VERB_JOIN, join, 0); }
void run_async(thread_function_t function, void *argument, void *stack_base) {
    (void)stack_base;
    xc_job_t job = {function, argument, ""};
    job_record_t record = record_of(&job);
    runtime_verb_with(VERB_RUN_ASYNC, 1, 0, &record, sizeof record, NULL, 0);
}
/* Groups of threads. A thread that is awaited is a group of one. */

enum { GROUPS = 7 };
static struct {
    int used;
    size_t count;
    xc_job_t jobs[MOST_JOBS];
    uint32_t join;
} groups[GROUPS];

static unsigned group_number(threadgroup_t group) {
    unsigned number = (group >> 8 & 0xFF) - 1;
    if ((group & 0xFF) != XS1_RES_TYPE_SYNC || number >= GROUPS || !groups[number].used) {
        runtime_trap(TRAP_ILLEGAL_RESOURCE, "a thread group that is not allocated");
    }
    return number;
}
threadgroup_t thread_group_alloc(void) {
    for (unsigned number = 0; number < GROUPS; number++) {
        if (groups[number].used) continue;
        groups[number].used = 1;
        groups[number].count = 0;
        groups[number].join = 0;
        return (number + 1) << 8 | XS1_RES_TYPE_SYNC;
    }
    return 0;
}
/* Threads of groups that do not run: each has a logical core, as on the chip. */
static size_t idle_threads(void) {
    size_t sum = 0;
    for (unsigned number = 0; number < GROUPS; number++) {
        if (groups[number].used && !groups[number].join) sum += groups[number].count;
    }
    return sum;
}
int thread_group_try_add(threadgroup_t group, thread_function_t function, void *argument, void *stack_base) {
    size_t cores_free = runtime_verb(VERB_CORES_FREE, 0, 0); /* first, as other cores may add meanwhile */
    unsigned number = group_number(group);
    size_t count = groups[number].count;
    (void)stack_base;
    if (count + 1 >= MOST_JOBS || cores_free <= idle_threads()) return 0;
    groups[number].jobs[count] = (xc_job_t){function, argument, ""};
    groups[number].count = count + 1;
    return 1;
}
void thread_group_add(threadgroup_t group, thread_function_t function, void *argument, void *stack_base) {
    if (!thread_group_try_add(group, function, argument, stack_base)) {
        runtime_trap(TRAP_ILLEGAL_RESOURCE, "a thread group with more threads than logical cores are left");
    }
}
void thread_group_start(threadgroup_t group) {
    unsigned number = group_number(group);
    groups[number].join = xc_fork(groups[number].count, groups[number].jobs);
}
void thread_group_wait(threadgroup_t group) {
    unsigned number = group_number(group);
    if (groups[number].join) xc_join(groups[number].join);
    groups[number].join = 0;
}
void thread_group_free(threadgroup_t group) {
    unsigned number = group_number(group);
    if (groups[number].join) runtime_trap(TRAP_ILLEGAL_RESOURCE, "a thread group that runs is freed");
    groups[number].used = 0;
}
void thread_group_wait_and_free(threadgroup_t group) {
    thread_group_wait(group);
    thread_group_free(group);
}
xthread_t xthread_alloc_and_start(thread_function_t function, void *argument, void *stack_base) {
    threadgroup_t group = thread_group_alloc();
    if (group) {
        thread_group_add(group, function, argument, stack_base);
        thread_group_start(group);
    }
    return group;
}
void xthread_wait_and_free(xthread_t thread) { thread_group_wait_and_free(thread); }
void *stack_base(void *memory, size_t words) { return (char *)memory + sizeof(int) * words - 8; }

/* Select. */

enum { CORES = 2 * CALLBACKS, MOST_CASES = 64, TIMER = 1 };
typedef struct {
    uint32_t resource, time;
} event_t;
static struct {
    int ordered;
    size_t count;
    event_t events[MOST_CASES];
    void *labels[MOST_CASES];
    void *otherwise;
} selects[CORES];

static event_t event_of(uint32_t resource) {
    event_t event = {resource, 0};
    if ((resource & 0xFF) == TIMER && !runtime_trigger(resource, &event.time)) event.time = runtime_always_after();
    return event;
}
void xc_select_begin(int ordered) {
    selects[runtime_core()].ordered = ordered;
    selects[runtime_core()].count = 0;
    selects[runtime_core()].otherwise = NULL;
}
void xc_select_case(resource_t resource, void *label) {
    size_t place = selects[runtime_core()].count;
    event_t event = event_of(resource);
    if (place == MOST_CASES) runtime_trap(TRAP_ECALL, "a select of more than 64 cases");
    selects[runtime_core()].events[place] = event;
    selects[runtime_core()].labels[place] = label;
    selects[runtime_core()].count = place + 1;
}
void xc_select_default(void *label) { selects[runtime_core()].otherwise = label; }
void *xc_select_wait(void) {
    unsigned core = runtime_core();
    void *otherwise = selects[core].otherwise;
    if (otherwise && !selects[core].count) return otherwise;
    uint32_t chosen = runtime_verb_with(VERB_SELECT, otherwise != NULL, (uint32_t)selects[core].ordered, selects[core].events,
                                        selects[core].count * sizeof(event_t), NULL, 0);
    return chosen < selects[core].count ? selects[core].labels[chosen] : otherwise;
}

/* Events by hand. */

static struct {
    size_t count;
    struct {
        uint32_t resource;
        void *label;
        int enabled;
    } vectors[MOST_CASES];
} vectors[CORES];

void xc_event_vector(resource_t resource, void *label) {
    unsigned core = runtime_core();
    size_t place = 0;
    interrupts_forget(resource);
    while (place < vectors[core].count && vectors[core].vectors[place].resource != resource) place++;
    if (place == MOST_CASES) runtime_trap(TRAP_ECALL, "event vectors of more than 64 resources");
    if (place == vectors[core].count) {
        vectors[core].count++;
        vectors[core].vectors[place].enabled = 0;
    }
    vectors[core].vectors[place].resource = resource;
    vectors[core].vectors[place].label = label;
}
void *xc_event_label(int wait) {
    unsigned core = runtime_core();
    xc_select_begin(0);
    for (size_t i = 0; i < vectors[core].count; i++) {
        if (vectors[core].vectors[i].enabled) {
            xc_select_case(vectors[core].vectors[i].resource, vectors[core].vectors[i].label);
        }
    }
    if (!selects[core].count) {
        if (!wait) return NULL;
        runtime_trap(TRAP_ECALL, "a wait with no event enabled");
    }
    if (wait) return xc_select_wait();
    xc_select_default(&vectors[core]); /* any address that is no label */
    void *label = xc_select_wait();
    return label == &vectors[core] ? NULL : label;
}
void triggerable_set_trigger_enabled(resource_t resource, int enabled) {
    unsigned core = runtime_core();
    if (interrupts_have(resource)) {
        interrupts_set_enabled(resource, enabled);
        return;
    }
    for (size_t i = 0; i < vectors[core].count; i++) {
        if (vectors[core].vectors[i].resource == resource) vectors[core].vectors[i].enabled = enabled;
    }
}
void triggerable_enable_trigger(resource_t resource) { triggerable_set_trigger_enabled(resource, 1); }
void triggerable_disable_trigger(resource_t resource) { triggerable_set_trigger_enabled(resource, 0); }
void triggerable_disable_all(void) {
    unsigned core = runtime_core();
    for (size_t i = 0; i < vectors[core].count; i++) vectors[core].vectors[i].enabled = 0;
    interrupts_disable_all();
}

/* Assertions, and output. */

static void fail(const char *assertion, const char *file, int line) {
    char text[300];
    const char *slash = strrchr(file, '/');
    snprintf(text, sizeof text, "%s failed at %s:%d", assertion, slash ? slash + 1 : file, line);
    runtime_trap(TRAP_ECALL, text);
}
void xc_failed(const char *assertion, const char *file, int line) {
    fail(assertion, file, line);
    __builtin_unreachable();
}
void __assert_fail(const char *assertion, const char *file, unsigned line, const char *function) {
    char text[200];
    (void)function;
    snprintf(text, sizeof text, "assert(%s)", assertion);
    fail(text, file, (int)line);
    __builtin_unreachable();
}

static int print_it(const char *format, ...) __attribute__((format(printf, 1, 2)));
static int print_it(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vprintf(format, arguments);
    va_end(arguments);
    return 0;
}
int printchar(char value) { return print_it("%c", value); }
int printcharln(char value) { return print_it("%c\n", value); }
int printint(int value) { return print_it("%d", value); }
int printintln(int value) { return print_it("%d\n", value); }
int printuint(unsigned value) { return print_it("%u", value); }
int printuintln(unsigned value) { return print_it("%u\n", value); }
int printhex(unsigned value) { return print_it("%x", value); }
int printhexln(unsigned value) { return print_it("%x\n", value); }
int printllong(long long value) { return print_it("%lld", value); }
int printllongln(long long value) { return print_it("%lld\n", value); }
int printstr(const char *text) { return print_it("%s", text); }
int printstrln(const char *text) { return print_it("%s\n", text); }

unsigned bitrev(unsigned value) {
    unsigned result = 0;
    for (int i = 0; i < 32; i++) result |= (value >> i & 1) << (31 - i);
    return result;
}
unsigned byterev(unsigned value) { return __builtin_bswap32(value); }
int clz(unsigned value) { return value ? __builtin_clz(value) : 32; }
