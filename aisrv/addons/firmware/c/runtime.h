/* What the functions of lib_xcore ask of the runtime: a verb of the substrate, and what this tile knows alone. */
#ifndef AISRV_RUNTIME_H
#define AISRV_RUNTIME_H

#include <stddef.h>
#include <stdint.h>

#include "verbs.h"

/* Perform a verb: `a` and `b` are its operands, `out` the bytes that go with it, `in` the room for those that
 * come back. Other cores of the tile run meanwhile. */
uint32_t runtime_verb_with(uint32_t verb, uint32_t a, uint32_t b, const void *out, size_t out_bytes, void *in,
                           size_t in_bytes);
uint32_t runtime_verb(uint32_t verb, uint32_t a, uint32_t b);

/* Perform a verb whose result nobody needs: the core goes on, and the verb is performed before its next one; or, where
 * the tile has no posts, waits for it. */
void runtime_post_with(uint32_t verb, uint32_t a, uint32_t b, const void *out, size_t out_bytes);
void runtime_post(uint32_t verb, uint32_t a, uint32_t b);

/* The reference clock as this core knows it, and whether it has read it since its last verb. */
uint32_t runtime_read_clock(void);

/* The destination of a channel end of this tile, 0 where it has none. */
uint32_t runtime_destination(uint32_t end);
void runtime_set_destination(uint32_t end, uint32_t destination);
/* Whether an end's destination is on another tile: only there may an output be posted. */
int runtime_leaves_tile(uint32_t end);

/* The trigger time of a timer, where it has one. */
int runtime_trigger(uint32_t timer, uint32_t *time);
void runtime_set_trigger(uint32_t timer, uint32_t time);
void runtime_clear_trigger(uint32_t timer);
/* A time that has passed, as for the event of a timer without a trigger time. */
uint32_t runtime_always_after(void);

/* Take a coroutine for a job, to be started by the verbs FORK or RUN_ASYNC; there is always one for each core. */
uint32_t runtime_new_job(void (*function)(void *), void *argument);
/* The coroutine that runs now: 0 to 15, and CALLBACKS more for a callback that interrupts one. */
unsigned runtime_core(void);

/* Sleep in a loop that was interrupted at a place of the code, until memory has changed. */
void runtime_spin(uint64_t pc, uint64_t frame_pointer);
/* Whether another core of the tile could change memory. */
int runtime_has_others(void);

/* Halt this core as a trap of that kind does; `text` is the reason. */
void runtime_trap(uint32_t kind, const char *text) __attribute__((noreturn));

#endif
