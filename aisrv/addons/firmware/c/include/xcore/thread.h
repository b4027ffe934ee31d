/* Logical cores that run a function. A stack of the caller's is not used: each core has one of its own, `stack` bytes of
 * the board's task or 64 KiB, with a guard page below it. */
#ifndef AISRV_XCORE_THREAD_H
#define AISRV_XCORE_THREAD_H

#include <xs1.h>

typedef resource_t xthread_t;
typedef resource_t threadgroup_t;
typedef void (*thread_function_t)(void *);

/* Bits of a core's mode. Here they are kept, and change nothing. */
typedef enum thread_mode_t {
    thread_mode_fast = 0x80,
    thread_mode_high_priority = 0x400,
} thread_mode_t;

XC_BEGIN
/* Run a function on a free core; none traps. */
void run_async(thread_function_t function, void *argument, void *stack_base);

/* Groups: functions that start together, each on a core of its own, and are waited for. 0 where the tile has no group
 * left, of 7. */
threadgroup_t thread_group_alloc(void);
void thread_group_add(threadgroup_t group, thread_function_t function, void *argument, void *stack_base);
/* Add a function where a core is free for it; else return 0. */
int thread_group_try_add(threadgroup_t group, thread_function_t function, void *argument, void *stack_base);
void thread_group_start(threadgroup_t group);
void thread_group_wait(threadgroup_t group);
void thread_group_free(threadgroup_t group);
void thread_group_wait_and_free(threadgroup_t group);
xthread_t xthread_alloc_and_start(thread_function_t function, void *argument, void *stack_base);
void xthread_wait_and_free(xthread_t thread);
void *stack_base(void *memory, size_t words);

/* The mode of the core that calls. */
void local_thread_mode_set_bits(thread_mode_t mode);
void local_thread_mode_clear_bits(thread_mode_t mode);
thread_mode_t local_thread_mode_get_bits(void);
XC_END

#endif
