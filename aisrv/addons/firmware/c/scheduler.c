/* The scheduler of a tile: it runs one core after the other, and exchanges their verbs for answers.
 *
 * The messages lie in memory that this process and the simulator share; a byte on a pipe says "yours". The layout is that
 * of `aisrv/addons/firmware/records.py`. */
#include "coroutines.h"
#include "interrupts.h"
#include "machine.h"
#include "output.h"
#include "signals.h"
#include "spin.h"

#include <errno.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include <xcore/hwtimer.h>

static int has_prefix; /* whether lines of output begin with tile and core */

static void run(int number) {
    slot_t *slot = &runtime_tile.slots[number];
    runtime_tile.current = number;
    if (!slot->has_run) interrupts_begin_core((unsigned)number);
    slot->has_run = 1;
    runtime_tile.turns++;
    spin_forget_look();
    runtime_switch(&runtime_tile.scheduler_stack_pointer, slot->stack_pointer);
    if (has_prefix) {
        fflush(stdout);
        if (!slot->used || slot->is_lost) output_end_line(slot);
    }
    runtime_tile.current = -1;
}

static void go_on(int number) {
    runtime_tile.runs++;
    run(number);
}

/* Functions that a board or the program starts: a table that is written for each program. */

void xscope_user_init(void) __attribute__((weak));
static void take_time_to_exit(void);

static void start_function(void *argument) {
    uint32_t *a = ((slot_t *)argument)->arguments;
    const runtime_task_t *task = ((slot_t *)argument)->in;
    static int is_begun;
    if (!is_begun++ && xscope_user_init) xscope_user_init();
    if (task->is_main) {
        int code = ((int (*)(uint32_t))task->function)(a[0]);
        take_time_to_exit();
        runtime_put(VERB_RETURN, task->is_main == 1 ? (uint32_t)code : 0, 0, 0, 0);
        fflush(NULL);
        runtime_tile.slots[runtime_tile.current].used = 0;
        runtime_sleep();
    }
    ((void (*)(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t))task->function)(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}

static void start(const result_t *result, const uint32_t *words) {
    slot_t *slot = &runtime_tile.slots[result->core & ~START];
    for (unsigned i = 0; i < START_ARGUMENTS; i++) {
        slot->arguments[i] = words[2 * i];
        if (words[2 * i + 1]) runtime_set_destination(words[2 * i], words[2 * i + 1]);
    }
    runtime_prepare((int)(slot - runtime_tile.slots), start_function, slot);
    slot->in = (void *)&runtime_tasks[result->value];
    slot->tick = result->tick;
    slot->core = words[2 * START_ARGUMENTS];
    go_on((int)(slot - runtime_tile.slots));
}

/* Callbacks of interrupts: each core has a coroutine for them, which runs while the core's own sleeps. */

static void interrupt(const result_t *result, const uint64_t *addresses) {
    int number = (int)(result->core & ~INTERRUPT);
    void (*callback)(void *) = (void (*)(void *))(uintptr_t)addresses[0];
    runtime_prepare(number, callback, (void *)(uintptr_t)addresses[1]);
    runtime_tile.slots[number].tick = result->tick;
    runtime_tile.slots[number].core = runtime_tile.slots[number - CALLBACKS].core;
    go_on(number);
}

static void say_where(int number) {
    slot_t *slot = &runtime_tile.slots[number];
    uint64_t frames[FRAMES];
    void **saved = slot->stack_pointer;
    frames[0] = (uintptr_t)saved[SAVED_RETURN] - 1;
    size_t count = runtime_walk((uintptr_t)saved[SAVED_FRAME_POINTER], slot, frames, 1);
    runtime_tile.current = number;
    runtime_put_place(VERB_WHERE, 0, 0, frames, count, "");
    runtime_tile.current = -1;
}

/* Let cores go on whose memory has changed, until none has. A core whose callback runs does not. */
static void end_spins(void) {
    int is_over = 0;
    for (int is_first = 1; !is_over; is_first = 0) {
        is_over = 1;
        for (int number = 0; number < SLOTS; number++) {
            slot_t *slot = &runtime_tile.slots[number];
            if (!slot->spins || (number < CALLBACKS && runtime_tile.slots[number + CALLBACKS].used)) continue;
            if (!spin_may_end((unsigned)number, is_first)) continue;
            slot->spins = slot->clock_was_read = 0;
            slot->tick = runtime_tile.latest_tick;
            run(number);
            is_over = 0;
        }
    }
}

/* The exchange with the simulator. */

static size_t exchange(void) {
    uint32_t words[2] = {(uint32_t)runtime_tile.request_bytes, 0};
    char byte = SAYS_REQUESTS;
    memcpy(runtime_tile.shared + sizeof(uint32_t), words, sizeof words);
    runtime_tile.request_bytes = 0;
    fflush(stdout);
    if (write(runtime_tile.pipe_out, &byte, 1) != 1) __real__exit(LOST_PIPE);
    ssize_t got;
    do {
        got = read(runtime_tile.pipe_in, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) __real__exit(LOST_PIPE);
    memcpy(words, runtime_tile.shared + sizeof(uint32_t), sizeof words);
    return words[1];
}

static void serve(void) {
    for (;;) {
        size_t bytes = exchange();
        for (size_t place = 0; place < bytes;) {
            result_t result;
            const char *data = runtime_tile.shared + RESULTS + place + sizeof result;
            memcpy(&result, runtime_tile.shared + RESULTS + place, sizeof result);
            place += sizeof result + ((result.bytes + 3) & ~(size_t)3);
            if (!(result.core & ASK_WHERE)) runtime_tile.latest_tick = result.tick;
            if (result.core & START) {
                start(&result, (const uint32_t *)data);
                continue;
            }
            if (result.core & INTERRUPT) {
                uint64_t addresses[2];
                memcpy(addresses, data, sizeof addresses);
                interrupt(&result, addresses);
                continue;
            }
            if (result.core & ASK_WHERE) {
                say_where((int)(result.core & ~ASK_WHERE));
                continue;
            }
            slot_t *slot = &runtime_tile.slots[result.core];
            if (result.bytes) memcpy(slot->in, data, result.bytes < slot->in_bytes ? result.bytes : slot->in_bytes);
            slot->result = result.value;
            slot->tick = result.tick;
            if (!slot->has_run) slot->core = result.value;
            if (!result.time_stands) slot->clock_was_read = 0;
            go_on((int)result.core);
        }
        end_spins();
    }
}

/* On the chip the C library takes its time until `exit` ends the program, while other cores run on. */
static uint32_t exit_ticks;

static void take_time_to_exit(void) {
    if (exit_ticks && runtime_tile.current >= 0) delay_ticks(exit_ticks);
}
void __wrap_exit(int code) __attribute__((noreturn));
void __real_exit(int code) __attribute__((noreturn));
void __wrap_exit(int code) {
    take_time_to_exit();
    __real_exit(code);
}

/* Say that the program ends, and how: the simulator takes nothing else for an end that was meant. */
static void say_exit(int code, void *unused) {
    const char byte = SAYS_EXIT;
    (void)unused;
    memcpy(runtime_tile.shared + EXIT_CODE, &code, sizeof code);
    if (write(runtime_tile.pipe_out, &byte, 1) != 1) __real__exit(LOST_PIPE);
}

/* On the chip what was printed is out: it has no buffers that `_Exit` could drop. */
void __wrap__Exit(int code) __attribute__((noreturn));
void __wrap__Exit(int code) {
    fflush(NULL);
    say_exit(code, NULL);
    __real__exit(code);
}
void __wrap__exit(int code) __attribute__((noreturn));
void __wrap__exit(int code) {
    say_exit(code, NULL);
    __real__exit(code);
}
static int quick_code;
static void say_quick_exit(void) { say_exit(quick_code, NULL); }
void __wrap_quick_exit(int code) __attribute__((noreturn));
void __real_quick_exit(int code) __attribute__((noreturn));
void __wrap_quick_exit(int code) {
    quick_code = code;
    __real_quick_exit(code);
}

/* The program is `runtime_main`, as main is the user's: see `--wrap=main`. */
int __wrap_main(void);
int __wrap_main(void) {
    const char *settings = getenv("AISRV_TILE");
    struct tile *tile = &runtime_tile;
    int memory;
    unsigned long stack;
    if (!settings || sscanf(settings, "%d,%d,%d,%u,%lu,%d,%d,%d,%d,%u", &memory, &tile->pipe_in, &tile->pipe_out,
                            &tile->number, &stack, &tile->cpu_limit, &tile->cpu_limit_halts, &has_prefix, &tile->has_posts,
                            &exit_ticks) != 10) {
        fprintf(stderr, "this is the program of a tile: `aisrv firmware run` starts it\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mallopt(M_MMAP_MAX, 0); /* the heap stays below 4 GiB: a pointer fits a word */
    runtime_tile.stack_bytes = stack;
    runtime_tile.shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (runtime_tile.shared == MAP_FAILED) runtime_die("no shared memory");
    uint32_t version;
    memcpy(&version, runtime_tile.shared, sizeof version);
    if (version != VERSION) {
        dprintf(2, "tile %u: the simulator speaks version %u and this program %d: build it anew\n", tile->number, version,
                VERSION);
        return 2;
    }
    if (on_exit(say_exit, NULL) || at_quick_exit(say_quick_exit)) runtime_die("no handler of its end");
    if (has_prefix) output_begin_lines();
    signals_catch();
    serve(); /* which does not return */
    return 0;
}
