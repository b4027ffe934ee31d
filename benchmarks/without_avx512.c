/* A processor without AVX-512 and AVX-VNNI, as far as a loaded library can tell: its cpuid instructions are replaced by
   ud2, and the signal that this raises answers for them. For measurements alone. */

#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>

static void answer(int number, siginfo_t *info, void *context) {
    (void)number, (void)info;
    greg_t *registers = ((ucontext_t *)context)->uc_mcontext.gregs;
    uint32_t a = (uint32_t)registers[REG_RAX], c = (uint32_t)registers[REG_RCX], b, d;
    const uint32_t leaf = a, part = c;
    __asm__ volatile("cpuid" : "+a"(a), "=b"(b), "+c"(c), "=d"(d));
    if (leaf == 7 && part == 0) {
        b &= ~(1u << 16 | 1u << 17 | 1u << 21 | 1u << 26 | 1u << 27 | 1u << 28 | 1u << 30 | 1u << 31);
        c &= ~(1u << 1 | 1u << 6 | 1u << 11 | 1u << 12 | 1u << 14);
        d &= ~(1u << 2 | 1u << 3 | 1u << 8 | 1u << 23);
    }
    if (leaf == 7 && part == 1) {
        a &= ~(1u << 4 | 1u << 5 | 1u << 23);
        d &= ~(1u << 4 | 1u << 5 | 1u << 10 | 1u << 19);
    }
    registers[REG_RAX] = a, registers[REG_RBX] = b, registers[REG_RCX] = c, registers[REG_RDX] = d;
    registers[REG_RIP] += 2;
}

/* Replace the instruction at an address; 0 where there is none, or the memory cannot be written. */
int replace_cpuid(unsigned char *at) {
    static int ready;
    if (!ready) {
        struct sigaction action = {.sa_flags = SA_SIGINFO};
        action.sa_sigaction = answer;
        if (sigaction(SIGILL, &action, NULL)) return 0;
        ready = 1;
    }
    unsigned char *page = (unsigned char *)((uintptr_t)at & ~(uintptr_t)4095);
    if (memcmp(at, "\x0f\xa2", 2) || mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC)) return 0;
    memcpy(at, "\x0f\x0b", 2);
    return 1;
}
