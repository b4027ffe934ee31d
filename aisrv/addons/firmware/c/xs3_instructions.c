/* XS3 instructions of inline assembly: each takes its operands from `xa_op` and leaves there what it writes. The calls
 * are written by aisrv/addons/firmware/host_assembler.py. Operands are read before a core may wait, as others use them then. */
#include <xclib.h>
#include <xcore/chanend.h>
#include <xcore/hwtimer.h>
#include <xcore/interrupt.h>
#include <xcore/lock.h>
#include <xcore/port.h>
#include <xcore/thread.h>
#include <xcore/triggerable.h>

#include "interrupts.h"
#include "runtime.h"

uint64_t xa_op[4];

enum { INTERRUPTS_ENABLED = 2, BITS = 32 };

static uint32_t operand(unsigned number) { return (uint32_t)xa_op[number]; }

/* Arithmetic. */

void xa_mkmsk(void) { xa_op[0] = operand(1) >= BITS ? 0xFFFFFFFFu : (1u << operand(1)) - 1; }
void xa_bitrev(void) { xa_op[0] = bitrev(operand(1)); }
void xa_byterev(void) { xa_op[0] = byterev(operand(1)); }
void xa_clz(void) { xa_op[0] = (uint32_t)clz(operand(1)); }
void xa_ldc(void) { xa_op[0] = operand(1); }
void xa_andnot(void) { xa_op[0] = operand(0) & ~operand(1); }
static unsigned unused_bits(uint32_t bits) { return bits == 0 || bits >= BITS ? 0 : BITS - bits; }
void xa_zext(void) { xa_op[0] = operand(0) << unused_bits(operand(1)) >> unused_bits(operand(1)); }
void xa_sext(void) {
    int32_t high = (int32_t)(operand(0) << unused_bits(operand(1)));
    xa_op[0] = (uint32_t)(high >> unused_bits(operand(1)));
}
void xa_crc32(void) {
    uint32_t checksum = operand(0), data = operand(1), polynomial = operand(2);
    for (int bit = 0; bit < BITS; bit++) {
        uint32_t last = checksum & 1;
        checksum = checksum >> 1 | (data >> bit & 1) << (BITS - 1);
        if (last) checksum ^= polynomial;
    }
    xa_op[0] = checksum;
}

/* Groups of 2^n bits, of two words: of a pair of groups the first word has the higher one. */
static uint32_t group_of(uint64_t bits, unsigned place, unsigned size) {
    return (uint32_t)(bits >> place & ((1ull << size) - 1));
}
void xa_zip(void) {
    uint32_t first = operand(0), second = operand(1), size = 1u << (operand(2) & (BITS - 1));
    uint64_t zipped = 0;
    if (operand(2) > 4) return;
    for (unsigned place = 0; place < BITS; place += size) {
        uint64_t pair = (uint64_t)group_of(first, place, size) << size | group_of(second, place, size);
        zipped |= pair << 2 * place;
    }
    xa_op[0] = zipped >> BITS;
    xa_op[1] = (uint32_t)zipped;
}
void xa_unzip(void) {
    uint64_t zipped = (uint64_t)operand(0) << BITS | operand(1);
    uint32_t first = 0, second = 0, size = 1u << (operand(2) & (BITS - 1));
    if (operand(2) > 4) return;
    for (unsigned place = 0; place < BITS; place += size) {
        first |= group_of(zipped, 2 * place + size, size) << place;
        second |= group_of(zipped, 2 * place, size) << place;
    }
    xa_op[0] = first;
    xa_op[1] = second;
}

/* The status register of each core: whether interrupts are unmasked, and bits that do nothing here. */

static uint32_t status[2 * CALLBACKS];

void xa_getsr(void) {
    uint32_t interrupts = interrupts_unmasked() ? INTERRUPTS_ENABLED : 0;
    xa_op[0] = (status[runtime_core()] | interrupts) & operand(1);
}
void xa_setsr(void) {
    uint32_t bits = operand(0);
    status[runtime_core()] |= bits & ~(uint32_t)INTERRUPTS_ENABLED;
    if (bits & INTERRUPTS_ENABLED) interrupt_unmask_all();
}
void xa_clrsr(void) {
    uint32_t bits = operand(0);
    status[runtime_core()] &= ~bits;
    if (bits & INTERRUPTS_ENABLED) interrupt_mask_all();
}

enum { MODES = thread_mode_fast | thread_mode_high_priority };
void local_thread_mode_set_bits(thread_mode_t mode) { status[runtime_core()] |= mode & MODES; }
void local_thread_mode_clear_bits(thread_mode_t mode) { status[runtime_core()] &= ~(uint32_t)(mode & MODES); }
thread_mode_t local_thread_mode_get_bits(void) { return status[runtime_core()] & MODES; }

/* Exceptions. */

void xa_ecallf(void) {
    if (!operand(0)) runtime_trap(TRAP_ECALL, "ecallf");
}
void xa_ecallt(void) {
    if (operand(0)) runtime_trap(TRAP_ECALL, "ecallt");
}
void xa_elate(void) {
    uint32_t time = operand(0);
    if ((int32_t)(get_reference_time() - time) > 0) runtime_trap(TRAP_ECALL, "elate");
}

/* Resources, by their type. */

static unsigned type_of(resource_t resource) { return resource & 0xFF; }

void xa_in(void) {
    resource_t resource = operand(1);
    switch (type_of(resource)) {
    case XS1_RES_TYPE_PORT: {
        uint32_t data = port_in(resource);
        xa_op[0] = data;
        break;
    }
    case XS1_RES_TYPE_TIMER: {
        uint32_t time = hwtimer_get_time(resource);
        xa_op[0] = time;
        break;
    }
    case XS1_RES_TYPE_LOCK:
        lock_acquire(resource);
        xa_op[0] = resource;
        break;
    default: {
        uint32_t word = chanend_in_word(resource);
        xa_op[0] = word;
    }
    }
}
void xa_out(void) {
    switch (type_of(operand(0))) {
    case XS1_RES_TYPE_PORT: port_out(operand(0), operand(1)); break;
    case XS1_RES_TYPE_LOCK: lock_release(operand(0)); break;
    default: chanend_out_word(operand(0), operand(1));
    }
}
void xa_int(void) {
    uint32_t token = (uint8_t)chanend_in_byte(operand(1));
    xa_op[0] = token;
}
void xa_outt(void) { chanend_out_byte(operand(0), (char)operand(1)); }
void xa_inct(void) {
    uint32_t token = (uint8_t)chanend_in_control_token(operand(1));
    xa_op[0] = token;
}
void xa_outct(void) { chanend_out_control_token(operand(0), (char)operand(1)); }
void xa_chkct(void) { chanend_check_control_token(operand(0), (char)operand(1)); }
void xa_testct(void) {
    uint32_t is_control = (uint32_t)chanend_test_control_token_next_byte(operand(1));
    xa_op[0] = is_control;
}
void xa_testwct(void) {
    uint32_t place = (uint32_t)chanend_test_control_token_next_word(operand(1));
    xa_op[0] = place;
}
void xa_setd(void) {
    switch (type_of(operand(0))) {
    case XS1_RES_TYPE_PORT: port_set_trigger_value(operand(0), operand(1)); break;
    case XS1_RES_TYPE_TIMER: hwtimer_set_trigger_time(operand(0), operand(1)); break;
    default: chanend_set_dest(operand(0), operand(1));
    }
}
void xa_getd(void) {
    resource_t resource = operand(1);
    xa_op[0] = type_of(resource) == XS1_RES_TYPE_TIMER ? hwtimer_get_trigger_time(resource) : chanend_get_dest(resource);
}
void xa_freer(void) {
    switch (type_of(operand(0))) {
    case XS1_RES_TYPE_TIMER: hwtimer_free(operand(0)); break;
    case XS1_RES_TYPE_LOCK: lock_free(operand(0)); break;
    default: chanend_free(operand(0));
    }
}

/* Ports. */

void xa_setc(void) { port_write_control_word(operand(0), operand(1)); }
void xa_settw(void) { port_set_transfer_width(operand(0), operand(1)); }
void xa_setpsc(void) { port_set_shift_count(operand(0), operand(1)); }
void xa_setpt(void) { port_set_trigger_time(operand(0), operand(1)); }
void xa_clrpt(void) { port_clear_trigger_time(operand(0)); }
void xa_outpw(void) { port_out_part_word(operand(0), operand(1), operand(2)); }
void xa_syncr(void) { port_sync(operand(0)); }
void xa_getts(void) {
    uint32_t time = port_get_trigger_time(operand(1));
    xa_op[0] = time;
}
void xa_endin(void) {
    uint32_t bits = (uint32_t)port_endin(operand(1));
    xa_op[0] = bits;
}
void xa_peek(void) {
    uint32_t pins = port_peek(operand(1));
    xa_op[0] = pins;
}

/* Events. */

void xa_eeu(void) { triggerable_enable_trigger(operand(0)); }
void xa_edu(void) { triggerable_disable_trigger(operand(0)); }
void xa_clre(void) { triggerable_disable_all(); }
void xa_waiteu(void) {
    void *label = xc_event_label(1);
    xa_op[0] = (uint64_t)(uintptr_t)label;
}
