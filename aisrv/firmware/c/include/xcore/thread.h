/* Logical cores that run a function. A stack of the caller's is not used: each core has one of its own, `stack` bytes of
 * the board's task or 64 KiB, with a guard page below it. */
#ifndef AISRV_XCORE_THREAD_H
#define AISRV_XCORE_THREAD_H

#include <xs1.h>

typedef resource_t xthread_t;
typedef resource_t threadgroup_t;
typedef void (*thread_function_t)(void *);

XC_BEGIN
/* Run a function on a free core; none traps. */
void run_async(thread_function_t function, void *argument, void *stack_base);
void *stack_base(void *memory, size_t words);
XC_END

XC_MISSING(thread_group_alloc, "use PAR_JOBS, or run_async")
XC_MISSING(thread_group_add, "use PAR_JOBS, or run_async")
XC_MISSING(thread_group_try_add, "use PAR_JOBS, or run_async")
XC_MISSING(thread_group_start, "use PAR_JOBS, or run_async")
XC_MISSING(thread_group_free, "use PAR_JOBS, or run_async")
XC_MISSING(thread_group_wait, "use PAR_JOBS, or run_async")
XC_MISSING(thread_group_wait_and_free, "use PAR_JOBS, or run_async")
XC_MISSING(xthread_alloc_and_start, "use PAR_JOBS, or run_async")
XC_MISSING(xthread_wait_and_free, "use PAR_JOBS, or run_async")

#endif
