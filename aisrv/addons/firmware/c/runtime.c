/* The runtime of a tile: its cores as coroutines on the one thread of this process.
 *
 * A core runs until it performs a verb. When all of them wait, their verbs go to the simulator in one message, and
 * its answer says which of them go on. The messages lie in memory that both share; a byte on a pipe says "yours".
 * The layout is that of `aisrv/addons/firmware/records.py`. */
#include "interrupts.h"
#include "machine.h"
#include "runtime.h"
#include "spin.h"

#include <errno.h>
#include <execinfo.h>
#include <malloc.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>
#include <xcore/hwtimer.h>

enum { SLOTS = 2 * CALLBACKS, STARTED = 8, FRAMES = 24, RESOURCES = 256, PAGE = 4096, LINE_BYTES = 512 };
enum { CPU_CHECK_MICROSECONDS = 2000, STEPS_OF_FIRST_LOOK = 32, MOST_STEPS = 16384 };

typedef struct {
    void *stack_pointer;
    char *stack; /* its lowest byte; the guard page lies below */
    int used;
    int has_run, is_lost, spins;
    uint32_t result;
    void *in;
    size_t in_bytes;
    uint32_t tick;
    int clock_was_read;
    unsigned posted;
    unsigned core;               /* the logical core that runs it */
    char line[LINE_BYTES];       /* what it has printed of a line, where lines tell their core */
    size_t line_bytes;
    void (*function)(void *);
    void *argument;
    uint32_t arguments[START_ARGUMENTS];
} slot_t;

static slot_t slots[SLOTS];
static int current = -1;
static void *scheduler_stack_pointer;
static size_t stack_bytes = 65536;
static uint32_t tile;

static char *shared;
static size_t request_bytes;
static int pipe_in, pipe_out;

static uint32_t destinations[RESOURCES];
static struct {
    int is_set;
    uint32_t time;
} triggers[RESOURCES];

static uint32_t latest_tick; /* of a result */

static volatile sig_atomic_t runs, turns; /* by a result, and all */
static int cpu_limit, cpu_limit_halts; /* milliseconds; 0 for never */
static int has_posts;

void __real__exit(int code) __attribute__((noreturn));
static void die(const char *what) {
    dprintf(2, "tile %u: %s: %s\n", tile, what, strerror(errno));
    __real__exit(120);
}

/* Say that the program ends, and how: the simulator takes nothing else for an end that was meant. */
static void say_exit(int code, void *unused) {
    const char byte = SAYS_EXIT;
    (void)unused;
    memcpy(shared + EXIT_CODE, &code, sizeof code);
    if (write(pipe_out, &byte, 1) != 1) __real__exit(LOST_PIPE);
}

unsigned runtime_core(void) { return (unsigned)current; }
unsigned get_logical_core_id(void) { return slots[current].core; }

/* Output whose lines begin with tile and core. What a core prints is flushed before another one runs. */

static int has_prefix;

static void end_line(slot_t *slot) {
    if (!slot->line_bytes) return;
    dprintf(1, "tile %u core %u: %.*s\n", tile, slot->core, (int)slot->line_bytes, slot->line);
    slot->line_bytes = 0;
}
static ssize_t write_lines(void *unused, const char *data, size_t bytes) {
    slot_t *slot = &slots[current < 0 ? 0 : current];
    (void)unused;
    for (size_t i = 0; i < bytes; i++) {
        if (data[i] == '\n' && !slot->line_bytes) {
            dprintf(1, "tile %u core %u:\n", tile, slot->core);
        } else if (data[i] == '\n') {
            end_line(slot);
        } else {
            slot->line[slot->line_bytes++] = data[i];
            if (slot->line_bytes == LINE_BYTES) end_line(slot);
        }
    }
    return (ssize_t)bytes;
}
static void end_lines(void) {
    fflush(stdout);
    for (int number = 0; number < SLOTS; number++) end_line(&slots[number]);
}
static void begin_lines_with_core(void) {
    stdout = fopencookie(NULL, "w", (cookie_io_functions_t){.write = write_lines});
    if (!stdout) die("no output");
    atexit(end_lines);
}

/* Requests: written by the running core, read by the simulator at the next exchange. */

static void *put(uint32_t verb, uint32_t a, uint32_t b, size_t out_bytes, size_t in_bytes) {
    request_t request = {(uint16_t)current, (uint16_t)verb, a, b, (uint32_t)out_bytes, (uint32_t)in_bytes};
    size_t padded = (out_bytes + 3) & ~(size_t)3;
    if (request_bytes + sizeof request + padded > HALF_BYTES) {
        dprintf(2, "tile %u: the requests of its cores are larger than %d bytes\n", tile, HALF_BYTES);
        __real__exit(121);
    }
    char *place = shared + REQUESTS + request_bytes;
    memcpy(place, &request, sizeof request);
    request_bytes += sizeof request + padded;
    return place + sizeof request;
}

static void sleep_until_answered(void) { runtime_switch(&slots[current].stack_pointer, scheduler_stack_pointer); }

uint32_t runtime_verb_with(uint32_t verb, uint32_t a, uint32_t b, const void *out, size_t out_bytes, void *in,
                           size_t in_bytes) {
    if (out_bytes > BUFFER_BYTES || in_bytes > BUFFER_BYTES) {
        runtime_trap(TRAP_LOAD_STORE, "a buffer larger than 1 MiB, of which a tile has half");
    }
    void *place = put(verb, a, b, out_bytes, in_bytes);
    if (out_bytes) memcpy(place, out, out_bytes);
    slot_t *slot = &slots[current];
    slot->in = in;
    slot->in_bytes = in_bytes;
    slot->posted = 0;
    sleep_until_answered();
    return slot->result;
}

uint32_t runtime_verb(uint32_t verb, uint32_t a, uint32_t b) { return runtime_verb_with(verb, a, b, NULL, 0, NULL, 0); }

void runtime_post_with(uint32_t verb, uint32_t a, uint32_t b, const void *out, size_t out_bytes) {
    slot_t *slot = &slots[current];
    if (!has_posts) {
        runtime_verb_with(verb, a, b, out, out_bytes, NULL, 0);
        return;
    }
    void *place = put(verb | POSTED, a, b, out_bytes, 0);
    if (out_bytes) memcpy(place, out, out_bytes);
    if (++slot->posted == MOST_POSTED) runtime_verb(VERB_CATCH_UP, 0, 0);
}

void runtime_post(uint32_t verb, uint32_t a, uint32_t b) { runtime_post_with(verb, a, b, NULL, 0); }

uint32_t runtime_read_clock(void) {
    slot_t *slot = &slots[current];
    uint32_t before = slot->tick;
    int was_read = slot->clock_was_read;
    if (slot->posted) runtime_verb(VERB_CATCH_UP, 0, 0);
    if (was_read && slot->tick == before) runtime_verb(VERB_LET_TIME_PASS, 0, 0);
    slot->clock_was_read = 1;
    return slot->tick;
}

/* What the tile knows by itself. */

static unsigned number_of(uint32_t resource) { return resource >> 8 & 0xFF; }

uint32_t runtime_destination(uint32_t end) { return destinations[number_of(end)]; }
void runtime_set_destination(uint32_t end, uint32_t destination) { destinations[number_of(end)] = destination; }
int runtime_leaves_tile(uint32_t end) {
    uint32_t destination = destinations[number_of(end)];
    return destination != 0 && destination >> 16 != end >> 16;
}

int runtime_trigger(uint32_t timer, uint32_t *time) {
    unsigned number = number_of(timer);
    *time = triggers[number].time;
    return triggers[number].is_set;
}
void runtime_set_trigger(uint32_t timer, uint32_t time) {
    triggers[number_of(timer)].is_set = 1;
    triggers[number_of(timer)].time = time;
    interrupts_time_changed(timer, time);
}
void runtime_clear_trigger(uint32_t timer) {
    triggers[number_of(timer)].is_set = 0;
    interrupts_time_changed(timer, runtime_always_after());
}
uint32_t runtime_always_after(void) { return slots[current].tick - 2; }

/* Coroutines. */

static void begin(void) {
    slot_t *slot = &slots[current];
    slot->function(slot->argument);
    put(VERB_RETURN, 0, 0, 0, 0);
    slot->used = 0;
    sleep_until_answered();
    abort(); /* nobody answers a core that has returned */
}

/* Stacks lie from 2 GiB down, each below the last one: the kernel begins the heap anywhere in the first GiB, and it grows up to
 * them. AddressSanitizer's shadow begins at 2 GiB. */
static char *new_stack(void) {
    static uintptr_t end = 0x7fff0000;
    size_t bytes = (2 * PAGE - 1 + stack_bytes) & ~(size_t)(PAGE - 1);
    char *lowest;
    do {
        end -= bytes;
        lowest = mmap((void *)end, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    } while (lowest == MAP_FAILED && errno == EEXIST && end > 2 * bytes);
    if (lowest == MAP_FAILED) die("no memory for a stack");
    if (mprotect(lowest, PAGE, PROT_NONE)) die("no guard page for a stack");
    return lowest + PAGE;
}

static void prepare(int number, void (*function)(void *), void *argument) {
    slot_t *slot = &slots[number];
    if (!slot->stack) slot->stack = new_stack();
    void **top = (void **)(slot->stack + stack_bytes);
    *--top = NULL; /* the caller of `begin`; a function is entered with a stack of 16n + 8 */
    *--top = (void *)begin;
    top -= SAVED_WORDS - 1;
    memset(top, 0, (SAVED_WORDS - 1) * sizeof *top);
    slot->stack_pointer = top;
    slot->used = 1;
    slot->has_run = slot->is_lost = slot->spins = 0;
    slot->function = function;
    slot->argument = argument;
    slot->posted = 0;
    slot->clock_was_read = 0;
    slot->tick = current < 0 ? 0 : slots[current].tick;
    interrupts_begin_core((unsigned)number);
}

uint32_t runtime_new_job(void (*function)(void *), void *argument) {
    for (int number = STARTED; number < CALLBACKS; number++) {
        if (!slots[number].used) {
            prepare(number, function, argument);
            return (uint32_t)number;
        }
    }
    runtime_trap(TRAP_ILLEGAL_RESOURCE, "more jobs at once than a tile has logical cores, 8");
}

static void run(int number) {
    current = number;
    slots[number].has_run = 1;
    turns++;
    spin_forget_look();
    runtime_switch(&scheduler_stack_pointer, slots[number].stack_pointer);
    if (has_prefix) {
        fflush(stdout);
        if (!slots[number].used || slots[number].is_lost) end_line(&slots[number]);
    }
    current = -1;
}

static void go_on(int number) {
    runs++;
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
        put(VERB_RETURN, task->is_main == 1 ? (uint32_t)code : 0, 0, 0, 0);
        fflush(NULL);
        slots[current].used = 0;
        sleep_until_answered();
    }
    ((void (*)(uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t, uint32_t))task->function)(
        a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
}

static void start(const result_t *result, const uint32_t *words) {
    slot_t *slot = &slots[result->core & ~START];
    for (unsigned i = 0; i < START_ARGUMENTS; i++) {
        slot->arguments[i] = words[2 * i];
        if (words[2 * i + 1]) runtime_set_destination(words[2 * i], words[2 * i + 1]);
    }
    prepare((int)(slot - slots), start_function, slot);
    slot->in = (void *)&runtime_tasks[result->value];
    slot->tick = result->tick;
    slot->core = words[2 * START_ARGUMENTS];
    go_on((int)(slot - slots));
}

/* Callbacks of interrupts: each core has a coroutine for them, which runs while the core's own sleeps. */

static void interrupt(const result_t *result, const uint64_t *addresses) {
    int number = (int)(result->core & ~INTERRUPT);
    void (*callback)(void *) = (void (*)(void *))(uintptr_t)addresses[0];
    prepare(number, callback, (void *)(uintptr_t)addresses[1]);
    slots[number].tick = result->tick;
    slots[number].core = slots[number - CALLBACKS].core;
    go_on(number);
}

/* Where a core is: the frames of its stack, for reports. */

static size_t walk(uintptr_t frame_pointer, const slot_t *slot, uint64_t *frames, size_t count) {
    uintptr_t low = (uintptr_t)slot->stack, high = low + stack_bytes - 2 * sizeof(void *);
    while (count < FRAMES && frame_pointer >= low && frame_pointer <= high && frame_pointer % sizeof(void *) == 0) {
        const uintptr_t *frame = (const uintptr_t *)frame_pointer;
        if (frame[1] == 0) break;
        frames[count++] = frame[1] - 1;
        if (frame[0] <= frame_pointer) break;
        frame_pointer = frame[0];
    }
    return count;
}

/* Where a signal came: by the unwinder, as leaf functions and the C library keep no frame pointers. On a stack that is
 * destroyed, or within inline assembly that pushes, it faults; then by the address and the frame pointers alone. */
static volatile sig_atomic_t unwinding;
static sigjmp_buf unwinding_failed;

static size_t frames_at(const ucontext_t *at, uint64_t *frames) {
    void *found[FRAMES + 8];
    size_t count = 0;
    void *address = (void *)at->uc_mcontext.gregs[MACHINE_PC];
    if (!sigsetjmp(unwinding_failed, 1)) {
        unwinding = 1;
        int all = backtrace(found, FRAMES + 8), first = 0;
        while (first < all && found[first] != address) first++;
        for (int i = first; i < all && count < FRAMES; i++) frames[count++] = (uintptr_t)found[i] - (i > first);
        unwinding = 0;
        if (count) return count;
    }
    unwinding = 0;
    frames[0] = (uintptr_t)address;
    return walk((uintptr_t)at->uc_mcontext.gregs[MACHINE_FRAME_POINTER], &slots[current], frames, 1);
}

static void put_place(uint32_t verb, uint32_t a, uint32_t b, const uint64_t *frames, size_t count, const char *text) {
    size_t length = strlen(text);
    uint32_t head[2] = {(uint32_t)count, 0};
    char *place = put(verb, a, b, sizeof head + count * sizeof *frames + length, 0);
    memcpy(place, head, sizeof head);
    memcpy(place + sizeof head, frames, count * sizeof *frames);
    memcpy(place + sizeof head + count * sizeof *frames, text, length);
}

static void say_where(int number) {
    slot_t *slot = &slots[number];
    uint64_t frames[FRAMES];
    void **saved = slot->stack_pointer;
    frames[0] = (uintptr_t)saved[SAVED_RETURN] - 1;
    size_t count = walk((uintptr_t)saved[SAVED_FRAME_POINTER], slot, frames, 1);
    current = number;
    put_place(VERB_WHERE, 0, 0, frames, count, "");
    current = -1;
}

/* Loops that wait for memory. */

int runtime_has_others(void) {
    for (int number = 0; number < SLOTS; number++) {
        if (slots[number].used && !slots[number].is_lost && (number - current) % CALLBACKS) return 1;
    }
    return 0;
}

void runtime_spin(uint64_t pc, uint64_t frame_pointer) {
    uint64_t frames[FRAMES] = {pc};
    size_t count = walk((uintptr_t)frame_pointer, &slots[current], frames, 1);
    slots[current].spins = 1;
    slots[current].posted = 0;
    put_place(VERB_SPIN, 0, 0, frames, count, "");
    sleep_until_answered();
}

/* Let cores go on whose memory has changed, until none has. A core whose callback runs does not. */
static void end_spins(void) {
    int is_over = 0;
    for (int is_first = 1; !is_over; is_first = 0) {
        is_over = 1;
        for (int number = 0; number < SLOTS; number++) {
            slot_t *slot = &slots[number];
            if (!slot->spins || (number < CALLBACKS && slots[number + CALLBACKS].used)) continue;
            if (!spin_may_end((unsigned)number, is_first)) continue;
            slot->spins = slot->clock_was_read = 0;
            slot->tick = latest_tick;
            run(number);
            is_over = 0;
        }
    }
}

/* Traps. */

__attribute__((noreturn)) static void leave(void) {
    void *unused;
    slots[current].is_lost = 1;
    runtime_switch(&unused, scheduler_stack_pointer);
    __builtin_unreachable();
}

void runtime_trap(uint32_t kind, const char *text) {
    uint64_t frames[FRAMES];
    size_t count = walk((uintptr_t)__builtin_frame_address(0), &slots[current], frames, 0);
    put_place(VERB_TRAP, kind, TRAP_OF_CORE, frames, count, text);
    leave();
}

static const char *name_of_signal(int number) {
    switch (number) {
    case SIGSEGV: return "segmentation fault";
    case SIGBUS: return "bus error";
    case SIGFPE: return "arithmetic error";
    case SIGILL: return "illegal instruction or division by zero";
    default: return "abort";
    }
}

static uint32_t kind_of_signal(int number) {
    switch (number) {
    case SIGFPE:
    case SIGILL: return TRAP_ARITHMETIC;
    case SIGABRT: return TRAP_ECALL;
    default: return TRAP_LOAD_STORE;
    }
}

static void on_signal(int number, siginfo_t *info, void *context) {
    const ucontext_t *at = context;
    if (unwinding) siglongjmp(unwinding_failed, 1);
    if (current < 0) {
        signal(number, SIG_DFL); /* a fault of the runtime itself: die of it as any program */
        raise(number);
        return;
    }
    const slot_t *slot = &slots[current];
    uint64_t frames[FRAMES];
    uintptr_t low = (uintptr_t)slot->stack, address = (uintptr_t)info->si_addr;
    size_t count = frames_at(at, frames);
    char text[80];
    if (number == SIGSEGV && address >= low - PAGE && address < low) {
        snprintf(text, sizeof text, "stack overflow");
    } else if (number == SIGSEGV || number == SIGBUS) {
        snprintf(text, sizeof text, "%s at %#lx", name_of_signal(number), (unsigned long)address);
    } else {
        snprintf(text, sizeof text, "%s", name_of_signal(number));
    }
    put_place(VERB_TRAP, kind_of_signal(number), number == SIGABRT ? TRAP_OF_TILE : TRAP_OF_CORE, frames, count, text);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    leave();
}

/* Of CPU time that a core has used since its last verb. */
static struct {
    sig_atomic_t runs, turns;
    long began; /* milliseconds */
    unsigned checks, next_look, steps;
    int reports;
} cpu;

static long cpu_milliseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void report_busy(const ucontext_t *at) {
    uint64_t frames[FRAMES];
    size_t count = frames_at(at, frames);
    const uint32_t head[4] = {(uint32_t)current, (uint32_t)(cpu.reports * cpu_limit), (uint32_t)count, 0};
    const char byte = SAYS_BUSY;
    memcpy(shared + BUSY_REPORT, head, sizeof head);
    memcpy(shared + BUSY_REPORT + sizeof head, frames, count * sizeof *frames);
    if (write(pipe_out, &byte, 1) != 1) __real__exit(LOST_PIPE);
    if (!cpu_limit_halts) return;
    put_place(VERB_TRAP, TRAP_ECALL, TRAP_OF_CPU_LIMIT, frames, count, "no verb within the limit of CPU time");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    leave();
}

static void on_cpu_timer(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    if (current < 0) return;
    if (cpu.runs != runs) {
        cpu.runs = runs;
        cpu.began = cpu_milliseconds();
        cpu.reports = 0;
    }
    if (cpu.turns != turns) {
        cpu.turns = turns;
        cpu.checks = 0;
        cpu.next_look = 1;
        cpu.steps = STEPS_OF_FIRST_LOOK;
        return;
    }
    if (++cpu.checks >= cpu.next_look) { /* ever more seldom, and longer: looks take their time, too */
        cpu.next_look = 2 * cpu.checks;
        spin_look(context, cpu.steps);
        if (cpu.steps < MOST_STEPS) cpu.steps *= 2;
    }
    if (cpu_limit && cpu_milliseconds() - cpu.began >= (cpu.reports + 1L) * cpu_limit) {
        cpu.reports++;
        report_busy(context);
    }
}

static void catch_signals(void) {
    static char alternate[65536];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    if (sigaltstack(&stack, NULL)) die("no stack for signals");
    action.sa_sigaction = on_signal;
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) sigaction(numbers[i], &action, NULL);
    void *first[1];
    backtrace(first, 1); /* which loads libgcc now and not in a handler */
    spin_catch_steps();
    struct itimerval timer = {{0, CPU_CHECK_MICROSECONDS}, {0, CPU_CHECK_MICROSECONDS}};
    action.sa_sigaction = on_cpu_timer;
    action.sa_flags |= SA_RESTART;
    sigaction(SIGVTALRM, &action, NULL);
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
}

/* What is not there on a tile. */

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_ON_A_TILE(result, name, ...)                                                                    \
    result name(__VA_ARGS__) {                                                                              \
        if (current >= 0) runtime_trap(TRAP_ILLEGAL_INSTRUCTION, #name "() is not there on a tile");       \
        errno = ENOSYS;                                                                                     \
        return (result)-1;                                                                                  \
    }
NOT_ON_A_TILE(pid_t, fork, void)
NOT_ON_A_TILE(pid_t, vfork, void)
NOT_ON_A_TILE(int, system, const char *command)
NOT_ON_A_TILE(int, execve, const char *path, char *const argv[], char *const envp[])
NOT_ON_A_TILE(int, execv, const char *path, char *const argv[])
NOT_ON_A_TILE(int, execvp, const char *file, char *const argv[])
NOT_ON_A_TILE(int, execvpe, const char *file, char *const argv[], char *const envp[])
NOT_ON_A_TILE(int, fexecve, int descriptor, char *const argv[], char *const envp[])
NOT_ON_A_TILE(int, execl, const char *path, const char *first, ...)
NOT_ON_A_TILE(int, execlp, const char *file, const char *first, ...)
NOT_ON_A_TILE(int, execle, const char *path, const char *first, ...)
NOT_ON_A_TILE(int, posix_spawn, pid_t *pid, const char *path, const void *actions, const void *attributes,
              char *const argv[], char *const envp[])
NOT_ON_A_TILE(int, posix_spawnp, pid_t *pid, const char *file, const void *actions, const void *attributes,
              char *const argv[], char *const envp[])
NOT_ON_A_TILE(FILE *, popen, const char *command, const char *mode)
NOT_ON_A_TILE(int, clone, int (*function)(void *), void *stack, int flags, void *argument, ...)
NOT_ON_A_TILE(int, pthread_create, void *thread, const void *attributes, void *(*function)(void *), void *argument)
NOT_ON_A_TILE(int, thrd_create, void *thread, int (*function)(void *), void *argument)

/* The exchange with the simulator. */

static size_t exchange(void) {
    uint32_t words[2] = {(uint32_t)request_bytes, 0};
    char byte = SAYS_REQUESTS;
    memcpy(shared + sizeof(uint32_t), words, sizeof words);
    request_bytes = 0;
    fflush(stdout);
    if (write(pipe_out, &byte, 1) != 1) __real__exit(LOST_PIPE);
    ssize_t got;
    do {
        got = read(pipe_in, &byte, 1);
    } while (got < 0 && errno == EINTR);
    if (got != 1) __real__exit(LOST_PIPE);
    memcpy(words, shared + sizeof(uint32_t), sizeof words);
    return words[1];
}

static void serve(void) {
    for (;;) {
        size_t bytes = exchange();
        for (size_t place = 0; place < bytes;) {
            result_t result;
            const char *data = shared + RESULTS + place + sizeof result;
            memcpy(&result, shared + RESULTS + place, sizeof result);
            place += sizeof result + ((result.bytes + 3) & ~(size_t)3);
            if (!(result.core & ASK_WHERE)) latest_tick = result.tick;
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
            slot_t *slot = &slots[result.core];
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
    if (exit_ticks && current >= 0) delay_ticks(exit_ticks);
}
void __wrap_exit(int code) __attribute__((noreturn));
void __real_exit(int code) __attribute__((noreturn));
void __wrap_exit(int code) {
    take_time_to_exit();
    __real_exit(code);
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
    int memory;
    unsigned long stack;
    if (!settings || sscanf(settings, "%d,%d,%d,%u,%lu,%d,%d,%d,%d,%u", &memory, &pipe_in, &pipe_out, &tile, &stack,
                            &cpu_limit, &cpu_limit_halts, &has_prefix, &has_posts, &exit_ticks) != 10) {
        fprintf(stderr, "this is the program of a tile: `aisrv firmware run` starts it\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    mallopt(M_MMAP_MAX, 0); /* the heap stays below 4 GiB: a pointer fits a word */
    stack_bytes = stack;
    shared = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
    if (shared == MAP_FAILED) die("no shared memory");
    uint32_t version;
    memcpy(&version, shared, sizeof version);
    if (version != VERSION) {
        dprintf(2, "tile %u: the simulator speaks version %u and this program %d: build it anew\n", tile, version, VERSION);
        return 2;
    }
    if (on_exit(say_exit, NULL) || at_quick_exit(say_quick_exit)) die("no handler of its end");
    if (has_prefix) begin_lines_with_core();
    catch_signals();
    serve(); /* which does not return */
    return 0;
}
