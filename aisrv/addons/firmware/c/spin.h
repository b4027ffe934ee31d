/* What the scheduler and signals need of loops that wait for memory. */
#ifndef AISRV_SPIN_H
#define AISRV_SPIN_H

#include <ucontext.h>

/* Begin to catch the steps of loops that are looked at, on the stack for signals. */
void spin_catch_steps(void);
/* Look whether the running coroutine, which a signal stopped, is in a loop that only somebody else can end; so many
 * steps are worth it to find out. */
void spin_look(ucontext_t *at, unsigned steps);
/* A coroutine goes on: whatever was looked at is over. */
void spin_forget_look(void);
/* Whether the memory that a sleeping loop touches has changed; where that is not known, at the first question alone. */
int spin_may_end(unsigned coroutine, int is_first);

#endif
