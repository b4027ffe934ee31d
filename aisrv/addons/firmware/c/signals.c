/* Signals: faults of a core are traps of it, and the timer of CPU time finds cores that perform no verb. */
#include "signals.h"

#include "coroutines.h"
#include "machine.h"
#include "spin.h"

#include <execinfo.h>
#include <setjmp.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum { CPU_CHECK_MICROSECONDS = 2000, STEPS_OF_FIRST_LOOK = 32, MOST_STEPS = 16384 };

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
    return runtime_walk((uintptr_t)at->uc_mcontext.gregs[MACHINE_FRAME_POINTER], &runtime_tile.slots[runtime_tile.current],
                        frames, 1);
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
    if (runtime_tile.current < 0) {
        signal(number, SIG_DFL); /* a fault of the runtime itself: die of it as any program */
        raise(number);
        return;
    }
    const slot_t *slot = &runtime_tile.slots[runtime_tile.current];
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
    runtime_put_place(VERB_TRAP, kind_of_signal(number), number == SIGABRT ? TRAP_OF_TILE : TRAP_OF_CORE, frames, count,
                      text);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    runtime_leave();
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
    const uint32_t limit = (uint32_t)(cpu.reports * runtime_tile.cpu_limit);
    const uint32_t head[4] = {(uint32_t)runtime_tile.current, limit, (uint32_t)count, 0};
    const char byte = SAYS_BUSY;
    memcpy(runtime_tile.shared + BUSY_REPORT, head, sizeof head);
    memcpy(runtime_tile.shared + BUSY_REPORT + sizeof head, frames, count * sizeof *frames);
    if (write(runtime_tile.pipe_out, &byte, 1) != 1) __real__exit(LOST_PIPE);
    if (!runtime_tile.cpu_limit_halts) return;
    runtime_put_place(VERB_TRAP, TRAP_ECALL, TRAP_OF_CPU_LIMIT, frames, count, "no verb within the limit of CPU time");
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    runtime_leave();
}

static void on_cpu_timer(int number, siginfo_t *info, void *context) {
    (void)number;
    (void)info;
    if (runtime_tile.current < 0) return;
    if (cpu.runs != runtime_tile.runs) {
        cpu.runs = runtime_tile.runs;
        cpu.began = cpu_milliseconds();
        cpu.reports = 0;
    }
    if (cpu.turns != runtime_tile.turns) {
        cpu.turns = runtime_tile.turns;
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
    if (runtime_tile.cpu_limit && cpu_milliseconds() - cpu.began >= (cpu.reports + 1L) * runtime_tile.cpu_limit) {
        cpu.reports++;
        report_busy(context);
    }
}

void signals_catch(void) {
    static char alternate[65536];
    const stack_t stack = {.ss_sp = alternate, .ss_size = sizeof alternate};
    const int numbers[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
    struct sigaction action = {.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER};
    if (sigaltstack(&stack, NULL)) runtime_die("no stack for signals");
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
