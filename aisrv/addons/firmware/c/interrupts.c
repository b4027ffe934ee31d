/* Interrupts of the cores. A callback runs as a coroutine of its own, on a stack of its own, while its core sleeps. It has
 * a mask of its own, which is that of its core on the chip until it returns. */
#include <xcore/chanend.h>
#include <xcore/hwtimer.h>
#include <xcore/interrupt.h>
#include <xcore/port.h>
#include <xcore/triggerable.h>

#include "interrupts.h"
#include "runtime.h"

enum { MOST_INTERRUPTS = 64, TIMER = 1 };

static struct {
    resource_t resource;
    unsigned core; /* that it interrupts */
} interrupts[MOST_INTERRUPTS];
static size_t count;
static int unmasked[2 * CALLBACKS], has_interrupts[CALLBACKS];

static unsigned own_core(void) { return runtime_core() % CALLBACKS; }

static size_t place_of(resource_t resource) {
    size_t place = 0;
    while (place < count && (interrupts[place].resource != resource || interrupts[place].core != own_core())) place++;
    return place;
}
static void remove_at(size_t place) { interrupts[place] = interrupts[--count]; }

void interrupts_begin_core(unsigned core) {
    unmasked[core] = 0;
    if (core >= CALLBACKS) return;
    has_interrupts[core] = 0;
    for (size_t place = count; place-- > 0;) {
        if (interrupts[place].core == core) remove_at(place);
    }
}

int interrupts_have(resource_t resource) { return place_of(resource) < count; }

void interrupts_set_enabled(resource_t resource, int enabled) {
    runtime_verb(VERB_ENABLE_INTERRUPT, resource, enabled != 0);
}
void interrupts_disable_all(void) {
    if (has_interrupts[own_core()]) runtime_verb(VERB_DISABLE_INTERRUPTS, 0, 0);
}
void interrupts_forget(resource_t resource) {
    size_t place = place_of(resource);
    if (place == count) return;
    interrupts_set_enabled(resource, 0);
    remove_at(place);
}
static void tell_time(resource_t timer, uint32_t time) {
    if (count && interrupts_have(timer)) runtime_verb(VERB_TRIGGER_TIME, timer, time);
}
void interrupts_set_trigger(resource_t timer, uint32_t time) {
    runtime_set_trigger(timer, time);
    tell_time(timer, time);
}
void interrupts_clear_trigger(resource_t timer) {
    runtime_clear_trigger(timer);
    tell_time(timer, runtime_always_after());
}

int interrupts_unmasked(void) { return unmasked[runtime_core()]; }

int interrupts_may_come(void) { return interrupts_unmasked() && has_interrupts[own_core()]; }

static void set_masked(int masked) {
    if (unmasked[runtime_core()] == !masked) return;
    unmasked[runtime_core()] = !masked;
    if (has_interrupts[own_core()]) runtime_verb(VERB_MASK_INTERRUPTS, (uint32_t)masked, 0);
}
void interrupt_mask_all(void) { set_masked(1); }
void interrupt_unmask_all(void) { set_masked(0); }

void triggerable_setup_interrupt_callback(resource_t resource, void *data, interrupt_callback_t callback) {
    uint32_t time = 0;
    uint64_t addresses[2] = {(uint64_t)(uintptr_t)callback, (uint64_t)(uintptr_t)data};
    if ((resource & 0xFF) == TIMER && !runtime_trigger(resource, &time)) time = runtime_always_after();
    if (!interrupts_have(resource)) {
        if (count == MOST_INTERRUPTS) runtime_trap(TRAP_ECALL, "interrupts of more than 64 resources");
        interrupts[count].core = own_core();
        interrupts[count++].resource = resource;
    }
    runtime_verb_with(VERB_SETUP_INTERRUPT, resource, time, addresses, sizeof addresses, NULL, 0);
    if (!has_interrupts[own_core()]) {
        has_interrupts[own_core()] = 1;
        if (unmasked[own_core()]) runtime_verb(VERB_MASK_INTERRUPTS, 0, 0);
    }
}
void chanend_setup_interrupt_callback(chanend_t c, void *data, interrupt_callback_t callback) {
    triggerable_setup_interrupt_callback(c, data, callback);
}
void port_setup_interrupt_callback(port_t p, void *data, interrupt_callback_t callback) {
    triggerable_setup_interrupt_callback(p, data, callback);
}
void hwtimer_setup_interrupt_callback(hwtimer_t t, uint32_t time, void *data, interrupt_callback_t callback) {
    interrupts_set_trigger(t, time);
    triggerable_setup_interrupt_callback(t, data, callback);
}
