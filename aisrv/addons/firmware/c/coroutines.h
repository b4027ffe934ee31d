/* The coroutines of a tile, for the runtime's own files: the scheduler, the signals and the output. */
#ifndef AISRV_COROUTINES_H
#define AISRV_COROUTINES_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime.h"

enum { SLOTS = 2 * CALLBACKS, FRAMES = 24, PAGE = 4096, LINE_BYTES = 512 };

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

/* What the program of a tile is: its cores, and its place in the simulation. */
extern struct tile {
    slot_t slots[SLOTS];
    int current; /* the slot that runs, -1 for the scheduler */
    void *scheduler_stack_pointer;
    size_t stack_bytes;
    uint32_t number;
    char *shared;
    size_t request_bytes;
    int pipe_in, pipe_out;
    uint32_t latest_tick;               /* of a result */
    volatile sig_atomic_t runs, turns;  /* by a result, and all */
    int cpu_limit, cpu_limit_halts;     /* milliseconds; 0 for never */
    int has_posts;
} runtime_tile;

/* End the process for a failure of the host, which `errno` tells. */
void runtime_die(const char *what) __attribute__((noreturn));
void __real__exit(int code) __attribute__((noreturn));

/* Write a request of the running core, and return the place of the bytes that go with it. */
void *runtime_put(uint32_t verb, uint32_t a, uint32_t b, size_t out_bytes, size_t in_bytes);
/* The same, of a verb that says where its core is. */
void runtime_put_place(uint32_t verb, uint32_t a, uint32_t b, const uint64_t *frames, size_t count, const char *text);
/* Let the scheduler run until the running core has its answer. */
void runtime_sleep(void);
/* Let it run for ever: the running core is lost. */
void runtime_leave(void) __attribute__((noreturn));
/* Give a slot a stack and a function, which is called as it runs first. */
void runtime_prepare(int number, void (*function)(void *), void *argument);
/* The frames of a stack, behind the `count` that are there, from a frame pointer on. */
size_t runtime_walk(uintptr_t frame_pointer, const slot_t *slot, uint64_t *frames, size_t count);

#endif
