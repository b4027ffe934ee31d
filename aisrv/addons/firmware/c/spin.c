/* Loops that wait for memory. A core that reads a variable until a callback or another core sets it performs no verb;
 * and as code takes no time, nothing would ever set it. So a core that has run for some CPU time without a verb has its
 * instructions run one by one. Where the registers, and all memory that the loop touches, are as they were a turn before,
 * it goes on so until somebody else writes there. Then it sleeps, by a call that its stack gets, always before the same
 * instruction of the loop, and goes on as that memory changes.
 *
 * How fast the machine is decides on nothing: a loop that counts or computes is none of these, however long it takes. */
#include "spin.h"

#include <cpuid.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "interrupts.h"
#include "machine.h"
#include "runtime.h"
#include "touched_memory.h"

enum {
    MOST_WINDOWS = 32,
    PAGE = 4096,
    VECTOR_BYTES = 4096,
    FIRST_MARK = 32,
    MOST_TURNS = 8,
    SINGLE_STEP = 0x100,
    PASSING_FLAGS = SINGLE_STEP | 0x10000
};

typedef struct {
    greg_t general[MACHINE_GENERAL], pc, flags;
    size_t vector_bytes;
    uint8_t vectors[VECTOR_BYTES];
} state_t;

typedef struct {
    uintptr_t address;
    unsigned bytes;
    int is_input; /* read in a turn before it is written */
    uint8_t value[MOST_TOUCHED];
} window_t;

/* A loop of a coroutine: the state before the instruction at which it sleeps, and the memory that it touches. */
static struct loop {
    state_t state;
    unsigned period; /* instructions of a turn; 0 where it was not looked at */
    size_t count;
    window_t windows[MOST_WINDOWS];
} loops[2 * CALLBACKS];

/* The look at the running coroutine. */
static struct {
    enum { NOTHING, SEARCH, LEARN, PROVE, SEEK, AGAIN } phase;
    unsigned steps, most_steps, since, mark, left, turns;
    state_t reference;
} look;

/* The state of the coroutine at a signal. */

static const uint8_t *vectors_at(const ucontext_t *at, size_t *bytes) {
    enum { MAGIC = 464, SIZE = 480, LEGACY = 512 };
    const uint8_t *saved = (const uint8_t *)at->uc_mcontext.fpregs + MACHINE_BEFORE_FXSAVE;
    uint32_t magic, size;
    memcpy(&magic, saved + MAGIC, sizeof magic);
    memcpy(&size, saved + SIZE, sizeof size);
    *bytes = magic != 0x46505853 ? LEGACY : size < VECTOR_BYTES ? size : VECTOR_BYTES; /* FP_XSTATE_MAGIC1 of Linux */
    return saved;
}

static void take(state_t *state, const ucontext_t *at) {
    const uint8_t *saved = vectors_at(at, &state->vector_bytes);
    memcpy(state->general, at->uc_mcontext.gregs, sizeof state->general);
    state->pc = at->uc_mcontext.gregs[MACHINE_PC];
    state->flags = at->uc_mcontext.gregs[REG_EFL] & ~(greg_t)PASSING_FLAGS;
    memcpy(state->vectors, saved, state->vector_bytes);
}

/* The kernel's own fields lie between the registers of SSE and those of AVX. */
static int is_same(const state_t *state, const ucontext_t *at) {
    enum { SSE_END = 416, AVX = 512 };
    const greg_t *general = at->uc_mcontext.gregs;
    size_t bytes;
    const uint8_t *saved;
    if (state->pc != general[MACHINE_PC]) return 0;
    if (memcmp(state->general, general, sizeof state->general)) return 0;
    if (state->flags != (general[REG_EFL] & ~(greg_t)PASSING_FLAGS)) return 0;
    saved = vectors_at(at, &bytes);
    return bytes == state->vector_bytes && !memcmp(state->vectors, saved, SSE_END) &&
           !memcmp(state->vectors + AVX, saved + AVX, bytes - AVX);
}

/* Code of the program itself, where a core may sleep: neither ours nor that of the C library. */
extern char __executable_start[], etext[], __start_runtime_code[], __stop_runtime_code[];

static int is_own_code(uintptr_t pc) {
    int is_ours = pc >= (uintptr_t)__start_runtime_code && pc < (uintptr_t)__stop_runtime_code;
    return pc >= (uintptr_t)__executable_start && pc < (uintptr_t)etext && !is_ours;
}

/* Code of the kernel's, which reads its clocks. */
static int reads_clocks(uintptr_t pc) {
    enum { PAGES = 4 };
    uintptr_t code = getauxval(AT_SYSINFO_EHDR);
    return code && pc >= code && pc < code + PAGES * PAGE;
}

/* The memory that a loop touches. */

static int touch(struct loop *loop, const ucontext_t *at, int may_add) {
    touched_t touched = touched_by_next(at->uc_mcontext.gregs);
    window_t *window = loop->windows, *end = loop->windows + loop->count;
    if (!touched.is_known || reads_clocks((uintptr_t)at->uc_mcontext.gregs[MACHINE_PC])) return 0;
    if (!touched.bytes) return 1;
    while (window < end && window->address != touched.address) window++;
    if (window < end && window->bytes >= touched.bytes) return 1;
    if (!may_add || loop->count == MOST_WINDOWS) return 0;
    int was_input = window < end && window->is_input;
    loop->count += window == end;
    *window = (window_t){touched.address, touched.bytes, was_input || !touched.is_store, {0}};
    return 1;
}

/* Byte by byte, as sanitizers look into calls of memcpy, and neighbours of a variable may be out of bounds. */
static void remember(struct loop *loop) {
    for (window_t *window = loop->windows; window < loop->windows + loop->count; window++) {
        const volatile uint8_t *now = (const volatile uint8_t *)window->address;
        for (size_t i = 0; i < window->bytes; i++) window->value[i] = now[i];
    }
}

static int is_changed(const window_t *window) {
    const volatile uint8_t *now = (const volatile uint8_t *)window->address;
    for (size_t i = 0; i < window->bytes; i++) {
        if (window->value[i] != now[i]) return 1;
    }
    return 0;
}

static int has_changed(const struct loop *loop) {
    for (size_t i = 0; i < loop->count; i++) {
        if (is_changed(&loop->windows[i])) return 1;
    }
    return 0;
}

int spin_may_end(unsigned coroutine, int is_first) {
    const struct loop *loop = &loops[coroutine];
    for (size_t i = 0; i < loop->count; i++) {
        if (loop->windows[i].is_input && is_changed(&loop->windows[i])) return 1;
    }
    return !loop->period && is_first;
}

/* Whether somebody could end the loop: a callback of its core, or another core of the tile. */
static int can_be_ended(const struct loop *loop) {
    return interrupts_may_come() || (loop->count && runtime_has_others());
}

/* The call that a coroutine's stack gets. */

static void sleep_in_loop(uintptr_t *frame) {
    enum { FRAME_POINTER = 0, PC = 1, FLAGS = -1 };
    struct loop *loop = &loops[runtime_core()];
    runtime_spin(frame[PC], frame[FRAME_POINTER]);
    if (!loop->period) return;
    look.phase = AGAIN;
    look.steps = look.turns = 0;
    look.most_steps = MOST_TURNS * loop->period + FIRST_MARK; /* those of the call itself among them */
    frame[FLAGS] |= SINGLE_STEP;
}

static void put_call(struct loop *loop, ucontext_t *at) {
    greg_t *general = at->uc_mcontext.gregs;
    uintptr_t *top = (uintptr_t *)(general[MACHINE_STACK_POINTER] - RED_ZONE);
    remember(loop);
    *--top = (uintptr_t)general[MACHINE_PC];
    general[MACHINE_STACK_POINTER] = (greg_t)top;
    general[MACHINE_PC] = (greg_t)machine_call;
}

/* Steps. Each phase is told of the instruction that is next, and says whether to go on. */

static void consider_place(struct loop *loop, const ucontext_t *at) {
    const greg_t *general = at->uc_mcontext.gregs, pc = general[MACHINE_PC];
    const state_t *best = &loop->state;
    if (!is_own_code((uintptr_t)pc)) return;
    if (!best->vector_bytes || pc < best->pc ||
        (pc == best->pc && memcmp(general, best->general, sizeof best->general) < 0)) {
        take(&loop->state, at);
    }
}

static int search(struct loop *loop, const ucontext_t *at) {
    look.since++;
    if (is_same(&look.reference, at)) {
        look.phase = LEARN;
        look.left = loop->period = look.since;
        look.most_steps = look.steps + 4 * loop->period;
        loop->count = 0;
        return touch(loop, at, 1);
    }
    if (look.since == look.mark) {
        take(&look.reference, at);
        look.since = 0;
        look.mark *= 2;
    }
    return 1;
}

static int learn(struct loop *loop, const ucontext_t *at) {
    if (--look.left) return touch(loop, at, 1);
    if (!is_same(&look.reference, at)) return 0;
    remember(loop);
    look.phase = PROVE;
    look.left = loop->period;
    loop->state.vector_bytes = 0;
    consider_place(loop, at);
    return touch(loop, at, 0);
}

static int seek(struct loop *loop, ucontext_t *at) {
    if (!is_same(&loop->state, at)) return 1;
    put_call(loop, at);
    return 0;
}

static int prove(struct loop *loop, ucontext_t *at) {
    if (--look.left) {
        consider_place(loop, at);
        return touch(loop, at, 0);
    }
    if (!is_same(&look.reference, at) || has_changed(loop) || !loop->state.vector_bytes || !can_be_ended(loop)) return 0;
    look.phase = SEEK;
    return seek(loop, at);
}

/* A loop whose memory has changed is still the same where it comes back and has changed nothing itself. */
static int go_around_again(struct loop *loop, ucontext_t *at) {
    if (!is_same(&loop->state, at)) return !look.turns || touch(loop, at, 0);
    if (look.turns && !has_changed(loop)) {
        put_call(loop, at);
        return 0;
    }
    remember(loop);
    look.turns++;
    return touch(loop, at, 0);
}

static int step(struct loop *loop, ucontext_t *at) {
    if (at->uc_mcontext.gregs[MACHINE_PC] == (greg_t)runtime_switch || ++look.steps > look.most_steps) return 0;
    switch (look.phase) {
    case SEARCH: return search(loop, at);
    case LEARN: return learn(loop, at);
    case PROVE: return prove(loop, at);
    case SEEK: return seek(loop, at);
    case AGAIN: return go_around_again(loop, at);
    default: return 0;
    }
}

static void on_step(int number, siginfo_t *info, void *context) {
    ucontext_t *at = context;
    if (info->si_code != TRAP_TRACE) { /* a breakpoint that the program holds itself: die of it as any program */
        signal(number, SIG_DFL);
        raise(number);
        return;
    }
    if (look.phase != NOTHING && step(&loops[runtime_core()], at)) {
        at->uc_mcontext.gregs[REG_EFL] |= SINGLE_STEP; /* which inline assembly pops away that keeps the flags */
        return;
    }
    look.phase = NOTHING;
    at->uc_mcontext.gregs[REG_EFL] &= ~(greg_t)SINGLE_STEP;
}

void spin_catch_steps(void) {
    enum { VECTORS = 0xD, HAS_XSAVE = 1 << 27 };
    unsigned a, b, c, d, bytes = 0, low, high;
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (!__get_cpuid(1, &a, &b, &c, &d) || !(c & HAS_XSAVE)) return; /* older than XSAVE: no loop is looked at */
    __get_cpuid_count(VECTORS, 0, &a, &bytes, &c, &d);
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    (void)high;
    machine_vector_mask = low & 0xE7; /* x87, SSE, AVX, AVX-512 */
    machine_vector_bytes = bytes;
    machine_called = sleep_in_loop;
    action.sa_sigaction = on_step;
    sigemptyset(&action.sa_mask);
    sigaddset(&action.sa_mask, SIGVTALRM);
    sigaction(SIGTRAP, &action, NULL);
}

void spin_forget_look(void) { look.phase = NOTHING; }

/* A debugger keeps single steps to itself. There any place in the program's own code will do. */
static int is_debugged(void) {
    char status[1024];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t bytes = file < 0 ? 0 : read(file, status, sizeof status - 1);
    if (file >= 0) close(file);
    status[bytes < 0 ? 0 : bytes] = 0;
    const char *tracer = strstr(status, "TracerPid:\t");
    return tracer && tracer[sizeof "TracerPid:\t" - 1] != '0';
}

void spin_look(ucontext_t *at, unsigned steps) {
    struct loop *loop = &loops[runtime_core()];
    if (look.phase != NOTHING || !machine_vector_bytes) return;
    if (is_debugged()) {
        loop->period = 0;
        loop->count = 0;
        if (is_own_code((uintptr_t)at->uc_mcontext.gregs[MACHINE_PC]) && (interrupts_may_come() || runtime_has_others())) {
            put_call(loop, at);
        }
        return;
    }
    look.phase = SEARCH;
    look.steps = look.since = 0;
    look.most_steps = steps;
    look.mark = FIRST_MARK;
    take(&look.reference, at);
    at->uc_mcontext.gregs[REG_EFL] |= SINGLE_STEP;
}
