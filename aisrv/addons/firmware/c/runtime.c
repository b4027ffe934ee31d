/* The coroutines of a tile and their verbs.
 *
 * A core runs until it performs a verb. When all of them wait, their verbs go to the simulator in one message, and
 * its answer says which of them go on: see scheduler.c. */
#include "coroutines.h"
#include "machine.h"
#include "runtime.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <xs1.h>

enum { STARTED = 8, RESOURCES = 256 };

struct tile runtime_tile = {.current = -1, .stack_bytes = 65536};

static uint32_t destinations[RESOURCES];
static struct {
    int is_set;
    uint32_t time;
} triggers[RESOURCES];

void runtime_die(const char *what) {
    dprintf(2, "tile %u: %s: %s\n", runtime_tile.number, what, strerror(errno));
    __real__exit(120);
}

unsigned runtime_core(void) { return (unsigned)runtime_tile.current; }
unsigned get_logical_core_id(void) { return runtime_tile.slots[runtime_tile.current].core; }

/* Requests: written by the running core, read by the simulator at the next exchange. */

void *runtime_put(uint32_t verb, uint32_t a, uint32_t b, size_t out_bytes, size_t in_bytes) {
    request_t request = {(uint16_t)runtime_tile.current, (uint16_t)verb, a, b, (uint32_t)out_bytes, (uint32_t)in_bytes};
    size_t padded = (out_bytes + 3) & ~(size_t)3;
    if (runtime_tile.request_bytes + sizeof request + padded > HALF_BYTES) {
        dprintf(2, "tile %u: the requests of its cores are larger than %d bytes\n", runtime_tile.number, HALF_BYTES);
        __real__exit(121);
    }
    char *place = runtime_tile.shared + REQUESTS + runtime_tile.request_bytes;
    memcpy(place, &request, sizeof request);
    runtime_tile.request_bytes += sizeof request + padded;
    return place + sizeof request;
}

void runtime_sleep(void) {
    runtime_switch(&runtime_tile.slots[runtime_tile.current].stack_pointer, runtime_tile.scheduler_stack_pointer);
}

uint32_t runtime_verb_with(uint32_t verb, uint32_t a, uint32_t b, const void *out, size_t out_bytes, void *in,
                           size_t in_bytes) {
    if (out_bytes > BUFFER_BYTES || in_bytes > BUFFER_BYTES) {
        runtime_trap(TRAP_LOAD_STORE, "a buffer larger than 1 MiB, of which a tile has half");
    }
    void *place = runtime_put(verb, a, b, out_bytes, in_bytes);
    if (out_bytes) memcpy(place, out, out_bytes);
    slot_t *slot = &runtime_tile.slots[runtime_tile.current];
    slot->in = in;
    slot->in_bytes = in_bytes;
    slot->posted = 0;
    runtime_sleep();
    return slot->result;
}

uint32_t runtime_verb(uint32_t verb, uint32_t a, uint32_t b) { return runtime_verb_with(verb, a, b, NULL, 0, NULL, 0); }

void runtime_post_with(uint32_t verb, uint32_t a, uint32_t b, const void *out, size_t out_bytes) {
    slot_t *slot = &runtime_tile.slots[runtime_tile.current];
    if (!runtime_tile.has_posts) {
        runtime_verb_with(verb, a, b, out, out_bytes, NULL, 0);
        return;
    }
    void *place = runtime_put(verb | POSTED, a, b, out_bytes, 0);
    if (out_bytes) memcpy(place, out, out_bytes);
    if (++slot->posted == MOST_POSTED) runtime_verb(VERB_CATCH_UP, 0, 0);
}

void runtime_post(uint32_t verb, uint32_t a, uint32_t b) { runtime_post_with(verb, a, b, NULL, 0); }

uint32_t runtime_read_clock(void) {
    slot_t *slot = &runtime_tile.slots[runtime_tile.current];
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
}
void runtime_clear_trigger(uint32_t timer) {
    triggers[number_of(timer)].is_set = 0;
}
uint32_t runtime_always_after(void) { return runtime_tile.slots[runtime_tile.current].tick - 2; }

/* Coroutines. */

static void begin(void) {
    slot_t *slot = &runtime_tile.slots[runtime_tile.current];
    slot->function(slot->argument);
    runtime_put(VERB_RETURN, 0, 0, 0, 0);
    slot->used = 0;
    runtime_sleep();
    abort(); /* nobody answers a core that has returned */
}

/* Stacks lie from 2 GiB down, each below the last one: the kernel begins the heap anywhere in the first GiB, and it grows up to
 * them. AddressSanitizer's shadow begins at 2 GiB. */
static char *new_stack(void) {
    static uintptr_t end = 0x7fff0000;
    size_t bytes = (2 * PAGE - 1 + runtime_tile.stack_bytes) & ~(size_t)(PAGE - 1);
    char *lowest;
    do {
        end -= bytes;
        lowest = mmap((void *)end, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    } while (lowest == MAP_FAILED && errno == EEXIST && end > 2 * bytes);
    if (lowest == MAP_FAILED) runtime_die("no memory for a stack");
    if (mprotect(lowest, PAGE, PROT_NONE)) runtime_die("no guard page for a stack");
    return lowest + PAGE;
}

void runtime_prepare(int number, void (*function)(void *), void *argument) {
    slot_t *slot = &runtime_tile.slots[number];
    if (!slot->stack) slot->stack = new_stack();
    void **top = (void **)(slot->stack + runtime_tile.stack_bytes);
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
    slot->tick = runtime_tile.current < 0 ? 0 : runtime_tile.slots[runtime_tile.current].tick;
}

uint32_t runtime_new_job(void (*function)(void *), void *argument) {
    for (int number = STARTED; number < CALLBACKS; number++) {
        if (!runtime_tile.slots[number].used) {
            runtime_prepare(number, function, argument);
            return (uint32_t)number;
        }
    }
    runtime_trap(TRAP_ILLEGAL_RESOURCE, "more jobs at once than a tile has logical cores, 8");
}

/* Where a core is: the frames of its stack, for reports. */

size_t runtime_walk(uintptr_t frame_pointer, const slot_t *slot, uint64_t *frames, size_t count) {
    uintptr_t low = (uintptr_t)slot->stack, high = low + runtime_tile.stack_bytes - 2 * sizeof(void *);
    while (count < FRAMES && frame_pointer >= low && frame_pointer <= high && frame_pointer % sizeof(void *) == 0) {
        const uintptr_t *frame = (const uintptr_t *)frame_pointer;
        if (frame[1] == 0) break;
        frames[count++] = frame[1] - 1;
        if (frame[0] <= frame_pointer) break;
        frame_pointer = frame[0];
    }
    return count;
}

void runtime_put_place(uint32_t verb, uint32_t a, uint32_t b, const uint64_t *frames, size_t count, const char *text) {
    size_t length = strlen(text);
    uint32_t head[2] = {(uint32_t)count, 0};
    char *place = runtime_put(verb, a, b, sizeof head + count * sizeof *frames + length, 0);
    memcpy(place, head, sizeof head);
    memcpy(place + sizeof head, frames, count * sizeof *frames);
    memcpy(place + sizeof head + count * sizeof *frames, text, length);
}

/* Loops that wait for memory. */

int runtime_has_others(void) {
    for (int number = 0; number < SLOTS; number++) {
        const slot_t *slot = &runtime_tile.slots[number];
        if (slot->used && !slot->is_lost && (number - runtime_tile.current) % CALLBACKS) return 1;
    }
    return 0;
}

void runtime_spin(uint64_t pc, uint64_t frame_pointer) {
    uint64_t frames[FRAMES] = {pc};
    size_t count = runtime_walk((uintptr_t)frame_pointer, &runtime_tile.slots[runtime_tile.current], frames, 1);
    runtime_tile.slots[runtime_tile.current].spins = 1;
    runtime_tile.slots[runtime_tile.current].posted = 0;
    runtime_put_place(VERB_SPIN, 0, 0, frames, count, "");
    runtime_sleep();
}

/* Traps. */

void runtime_leave(void) {
    void *unused;
    runtime_tile.slots[runtime_tile.current].is_lost = 1;
    runtime_switch(&unused, runtime_tile.scheduler_stack_pointer);
    __builtin_unreachable();
}

void runtime_trap(uint32_t kind, const char *text) {
    uint64_t frames[FRAMES];
    size_t count = runtime_walk((uintptr_t)__builtin_frame_address(0), &runtime_tile.slots[runtime_tile.current], frames, 0);
    runtime_put_place(VERB_TRAP, kind, TRAP_OF_CORE, frames, count, text);
    runtime_leave();
}

/* What is not there on a tile. */

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_ON_A_TILE(result, name, ...)                                                                    \
    result name(__VA_ARGS__) {                                                                              \
        if (runtime_tile.current >= 0) runtime_trap(TRAP_ILLEGAL_INSTRUCTION, #name "() is not there on a tile");       \
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
