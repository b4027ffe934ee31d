/* Functions that may be interrupted, and callbacks. Here any core may be interrupted, and a callback has a stack of its
 * own, as large as its core's; the groups and LIBXCORE_KSTACK_WORDS, by which the chip's stacks are measured, are not used.
 *
 *     DEFINE_INTERRUPT_CALLBACK(group, on_word, data) { *(uint32_t *)data = chanend_in_word(c); }
 *     DEFINE_INTERRUPT_PERMITTED(group, void, listen, void) { ... }
 *     PAR_JOBS(PJOB(INTERRUPT_PERMITTED(listen), ()), ...);
 */
#ifndef AISRV_XCORE_INTERRUPT_WRAPPERS_H
#define AISRV_XCORE_INTERRUPT_WRAPPERS_H

#include <xs1.h>

#ifndef LIBXCORE_KSTACK_WORDS
#define LIBXCORE_KSTACK_WORDS 0
#endif

#define DECLARE_INTERRUPT_PERMITTED(result, function, ...) result function(__VA_ARGS__)
#define DEFINE_INTERRUPT_PERMITTED(group, result, function, ...) result function(__VA_ARGS__)
#define INTERRUPT_PERMITTED(function) function

#define DECLARE_INTERRUPT_CALLBACK(callback, data) void callback(void *data)
#define DEFINE_INTERRUPT_CALLBACK(group, callback, data) void callback(void *data)
#define INTERRUPT_CALLBACK(callback) callback

#endif
