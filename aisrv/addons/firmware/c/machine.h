/* The host's processor, an x86 of 64 bits or of 32: where a signal's context has its registers, and what is written in its
 * assembly. */
#ifndef AISRV_MACHINE_H
#define AISRV_MACHINE_H

#include <stdint.h>
#include <ucontext.h>

#if defined(__x86_64__)
enum {
    MACHINE_PC = REG_RIP,
    MACHINE_STACK_POINTER = REG_RSP,
    MACHINE_FRAME_POINTER = REG_RBP,
    MACHINE_GENERAL = REG_RSP + 1, /* general registers, which come first */
    MACHINE_BEFORE_FXSAVE = 0      /* bytes before the registers as FXSAVE has them, in what `fpregs` points to */
};
#elif defined(__i386__)
enum {
    MACHINE_PC = REG_EIP,
    MACHINE_STACK_POINTER = REG_ESP,
    MACHINE_FRAME_POINTER = REG_EBP,
    MACHINE_GENERAL = REG_EAX + 1,
    MACHINE_BEFORE_FXSAVE = 112 /* as FSAVE has them */
};
#else
#error "C tasks run on Linux on x86-64 alone"
#endif

/* Save the registers that a call keeps, and go on where another stack stopped. */
void runtime_switch(void **save, void *to);

/* What it leaves on a stack: where of these words the frame pointer is, and the place to go on. */
#if defined(__x86_64__)
enum { SAVED_FRAME_POINTER = 5, SAVED_RETURN = 6, SAVED_WORDS = 7 };
#else
enum { SAVED_FRAME_POINTER = 4, SAVED_RETURN = 5, SAVED_WORDS = 6 };
#endif

/* What a coroutine's stack gets as the caller of nobody: the place to go on lies above it, and above that RED_ZONE bytes which
 * the code there may use. It calls `machine_called` with the words from its frame pointer on, the flags before them, and keeps
 * all registers. */
enum { RED_ZONE = 128 };
void machine_call(void);
extern void (*machine_called)(uintptr_t *frame);
extern uintptr_t machine_vector_bytes; /* of XSAVE, for the call */
extern uint64_t machine_vector_mask;

#endif
