/* What memory an instruction of this machine touches, from its bytes and the registers before it. */
#ifndef AISRV_TOUCHED_MEMORY_H
#define AISRV_TOUCHED_MEMORY_H

#include <stdint.h>
#include <ucontext.h>

enum { MOST_TOUCHED = 16 }; /* bytes of an operand */

typedef struct {
    int is_known; /* unknown is what reads more than an operand, a clock, or the world outside */
    uintptr_t address;
    unsigned bytes; /* 0 where there is no operand in memory */
    int is_store;   /* written, and not read before */
} touched_t;

/* Return the memory operand of the instruction that is next. What it pushes or pops does not count: that is the stack of
 * the code itself. */
touched_t touched_by_next(const greg_t *registers);

#endif
