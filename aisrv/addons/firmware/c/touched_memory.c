/* Decodes instructions as far as their memory operand goes. Source: AMD64 Architecture Programmer's Manual, volume 3,
 * appendix A (opcode maps, ModRM and SIB bytes). Forms that compilers seldom use are unknown, as are VEX and EVEX. */
#include "touched_memory.h"

#include "machine.h"

#include <string.h>

typedef enum { NO_OPERAND, OPERAND, UNKNOWN } form_t;
typedef struct {
    form_t form;
    unsigned bytes;
    unsigned constant; /* bytes of it behind the operand */
    int is_store;
} opcode_t;
typedef struct {
    unsigned bytes;        /* of a general register as its operand */
    int is_16, is_f2, is_f3; /* prefixes */
} size_prefixes_t;

enum { REGISTER_OPERAND = 3, BYTE = 1, HALF = 2, WORD = 4, LONG = 8, VECTOR = MOST_TOUCHED };

#if defined(__x86_64__)
enum { HAS_64_BITS = 1, POINTER = LONG, THREAD_SEGMENT = 0x64, OTHER_SEGMENT = 0x65 };
static const int numbered[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX, REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                               REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
#define THREAD_BASE "mov %%fs:0, %0"
#else
enum { HAS_64_BITS = 0, POINTER = WORD, THREAD_SEGMENT = 0x65, OTHER_SEGMENT = 0x64 };
static const int numbered[] = {REG_EAX, REG_ECX, REG_EDX, REG_EBX, REG_ESP, REG_EBP, REG_ESI, REG_EDI};
#define THREAD_BASE "mov %%gs:0, %0"
#endif

static int is_in(unsigned opcode, const char *opcodes, size_t count) { return memchr(opcodes, (int)opcode, count) != NULL; }
#define IS_IN(opcode, opcodes) is_in(opcode, opcodes, sizeof opcodes - 1)
static int is_from(unsigned opcode, unsigned first, unsigned last) { return opcode >= first && opcode <= last; }

static opcode_t one_byte(unsigned opcode, unsigned extension, size_prefixes_t prefixes) {
    unsigned bytes = opcode & 1 ? prefixes.bytes : BYTE, constant = prefixes.is_16 ? HALF : WORD;
    if (IS_IN(opcode, "\x62\x6C\x6D\x6E\x6F\xA0\xA1\xA2\xA3\xA4\xA5\xA6\xA7\xAA\xAB\xAC\xAD\xAE\xAF\xC4\xC5\xCC\xCD\xD7\xF4")) {
        return (opcode_t){.form = UNKNOWN}; /* absolute addresses, strings, VEX and EVEX, breakpoints and halts */
    }
    if (opcode < 0x40) return (opcode_t){(opcode & 7) < 4 ? OPERAND : NO_OPERAND, bytes, 0, 0};
    switch (opcode) {
    case 0x63: return (opcode_t){HAS_64_BITS ? OPERAND : UNKNOWN, WORD, 0, 0};
    case 0x69: return (opcode_t){OPERAND, prefixes.bytes, constant, 0};
    case 0x6B: return (opcode_t){OPERAND, prefixes.bytes, 1, 0};
    case 0x81: return (opcode_t){OPERAND, bytes, constant, 0};
    case 0x80:
    case 0x83:
    case 0xC0:
    case 0xC1: return (opcode_t){OPERAND, bytes, 1, 0};
    case 0x88:
    case 0x89: return (opcode_t){OPERAND, bytes, 0, 1};
    case 0x8C:
    case 0x8E: return (opcode_t){OPERAND, HALF, 0, 0};
    case 0x8F: return (opcode_t){OPERAND, POINTER, 0, 1};
    case 0xC6: return (opcode_t){OPERAND, bytes, 1, 1};
    case 0xC7: return (opcode_t){OPERAND, bytes, constant, 1};
    case 0xF6: return (opcode_t){OPERAND, bytes, extension < 2, 0};
    case 0xF7: return (opcode_t){OPERAND, bytes, extension < 2 ? constant : 0, 0};
    case 0xFF: return (opcode_t){OPERAND, extension < 2 ? bytes : POINTER, 0, 0};
    case 0x84:
    case 0x85:
    case 0x86:
    case 0x87:
    case 0x8A:
    case 0x8B:
    case 0xD0:
    case 0xD1:
    case 0xD2:
    case 0xD3:
    case 0xFE: return (opcode_t){OPERAND, bytes, 0, 0};
    default: return (opcode_t){is_from(opcode, 0xD8, 0xDF) ? OPERAND : NO_OPERAND, VECTOR, 0, 0}; /* x87 */
    }
}

static unsigned bytes_of_two(unsigned opcode, size_prefixes_t prefixes) {
    if (is_from(opcode, 0x90, 0x9F) || IS_IN(opcode, "\xB0\xB6\xBE\xC0")) return BYTE;
    if (IS_IN(opcode, "\xB7\xBF")) return HALF;
    if (is_from(opcode, 0x40, 0x4F) || IS_IN(opcode, "\xA4\xA5\xAC\xAD\xAF\xB1\xB8\xBA\xBC\xBD\xC1")) {
        return prefixes.bytes;
    }
    if (IS_IN(opcode, "\x2A\x6E\xC3") || (opcode == 0x7E && !prefixes.is_f3)) {
        return prefixes.bytes == LONG ? LONG : WORD; /* of which a vector is the other operand */
    }
    if (IS_IN(opcode, "\x12\x13\x16\x17\x7E\xD6")) return LONG;
    if (IS_IN(opcode, "\x2E\x2F")) return prefixes.is_16 ? LONG : WORD;
    if (is_from(opcode, 0x10, 0x11) || is_from(opcode, 0x2C, 0x2D) || is_from(opcode, 0x51, 0x5F)) {
        return prefixes.is_f3 ? WORD : prefixes.is_f2 ? LONG : VECTOR;
    }
    return opcode == 0xAE ? WORD : VECTOR;
}

static opcode_t two_bytes(unsigned opcode, unsigned extension, int is_register, size_prefixes_t prefixes) {
    if (is_from(opcode, 0x18, 0x1F) || opcode == 0x0D) return (opcode_t){.form = NO_OPERAND}; /* prefetches, and nop */
    if (opcode == 0xAE && extension < 2 && !is_register) {
        return (opcode_t){.form = NO_OPERAND}; /* fxsave, fxrstor: inline assembly keeps registers on its own stack */
    }
    if (is_from(opcode, 0x04, 0x0F) || is_from(opcode, 0x30, 0x37) || opcode == 0xA2 || opcode == 0xF7 ||
        (is_register && (opcode == 0x01 || opcode == 0xC7)) ||
        (!is_register && ((IS_IN(opcode, "\xAE\xC7") && extension > 3) || IS_IN(opcode, "\xA3\xAB\xB3\xBB")))) {
        return (opcode_t){.form = UNKNOWN}; /* system calls, clocks, random numbers, many bytes, bits far from their operand */
    }
    if (is_from(opcode, 0x80, 0x8F) || is_from(opcode, 0xC8, 0xCF) || IS_IN(opcode, "\x77\xA0\xA1\xA8\xA9")) {
        return (opcode_t){.form = NO_OPERAND};
    }
    unsigned constant = is_from(opcode, 0x70, 0x73) || IS_IN(opcode, "\xA4\xAC\xBA\xC2\xC4\xC5\xC6");
    int is_store = is_from(opcode, 0x90, 0x9F) || IS_IN(opcode, "\x11\x13\x17\x29\x2B\x7F\xC3\xD6\xE7") ||
                   (opcode == 0x7E && !prefixes.is_f3);
    return (opcode_t){OPERAND, bytes_of_two(opcode, prefixes), constant, is_store};
}

static uintptr_t thread_base(void) {
    uintptr_t base;
    __asm__(THREAD_BASE : "=r"(base)); /* the block of a thread begins with its own address */
    return base;
}

static uintptr_t displacement(const uint8_t *code, unsigned bytes) {
    int32_t word = 0;
    if (bytes == BYTE) return (uintptr_t)(intptr_t)(int8_t)*code;
    memcpy(&word, code, bytes);
    return (uintptr_t)(intptr_t)word;
}

/* Return what the ModRM byte at `code` says of an address, and the bytes behind it. */
static uintptr_t address_at(const uint8_t *code, const greg_t *registers, unsigned rex, unsigned constant) {
    enum { INDEXED = 4, NO_INDEX = 4, NO_BASE = 5 };
    unsigned mode = *code >> 6, base = *code & 7, bytes = mode == 1 ? BYTE : mode == 2 ? WORD : 0;
    uintptr_t sum = 0;
    code++;
    if (base == NO_BASE && mode == 0) { /* by itself; with 64 bits relative to the next instruction */
        return displacement(code, WORD) + (HAS_64_BITS ? (uintptr_t)code + WORD + constant : 0);
    }
    if (base == INDEXED) {
        unsigned index = (*code >> 3 & 7) | (rex & 2) << 2;
        if (index != NO_INDEX) sum += (uintptr_t)registers[numbered[index]] << (*code >> 6);
        base = *code++ & 7;
        if (base == NO_BASE && mode == 0) return sum + displacement(code, WORD);
    }
    return sum + (uintptr_t)registers[numbered[base | (rex & 1) << 3]] + (bytes ? displacement(code, bytes) : 0);
}

touched_t touched_by_next(const greg_t *registers) {
    const uint8_t *code = (const uint8_t *)registers[MACHINE_PC];
    const touched_t unknown = {0, 0, 0, 0}, none = {1, 0, 0, 0};
    size_prefixes_t prefixes = {WORD, 0, 0, 0};
    uintptr_t base = 0;
    unsigned rex = 0;
    for (; IS_IN(*code, "\x26\x2E\x36\x3E\x64\x65\x66\x67\xF0\xF2\xF3"); code++) {
        if (*code == OTHER_SEGMENT || *code == 0x67) return unknown;
        if (*code == THREAD_SEGMENT) base = thread_base();
        prefixes.is_16 |= *code == 0x66;
        prefixes.is_f2 |= *code == 0xF2;
        prefixes.is_f3 |= *code == 0xF3;
    }
    if (HAS_64_BITS && (*code & 0xF0) == 0x40) rex = *code++;
    prefixes.bytes = rex & 8 ? LONG : prefixes.is_16 ? HALF : WORD;
    if (rex & 8) prefixes.is_16 &= code[0] == 0x0F; /* there it belongs to the opcode */
    unsigned opcode = *code++;
    opcode_t found;
    if (!HAS_64_BITS && is_from(opcode, 0xA0, 0xA3)) { /* the accumulator, from an address or to it */
        return (touched_t){1, base + displacement(code, WORD), opcode & 1 ? prefixes.bytes : BYTE, opcode >= 0xA2};
    }
    if (opcode != 0x0F) {
        found = one_byte(opcode, *code >> 3 & 7, prefixes);
    } else if ((opcode = *code++) == 0x38 || opcode == 0x3A) {
        found = (opcode_t){OPERAND, VECTOR, opcode == 0x3A, 0};
        code++;
    } else {
        found = two_bytes(opcode, *code >> 3 & 7, *code >> 6 == REGISTER_OPERAND, prefixes);
    }
    if (found.form == UNKNOWN) return unknown;
    if (found.form == NO_OPERAND || *code >> 6 == REGISTER_OPERAND) return none;
    return (touched_t){1, base + address_at(code, registers, rex, found.constant), found.bytes, found.is_store};
}
