/* Ports and clock blocks: each function a verb of the substrate. What no answer depends on is posted: an output, and
 * what is set before the next one. The core's next verb, and its next read of the clock, come after it. */
#include <xcore/clock.h>
#include <xcore/port.h>
#include <xcore/port_protocol.h>

#include "runtime.h"

/* Clock blocks. */

void clock_enable(xclock_t clock) { runtime_verb(VERB_CLOCK_ENABLE, clock, 0); }
void clock_disable(xclock_t clock) { runtime_verb(VERB_CLOCK_DISABLE, clock, 0); }
void clock_start(xclock_t clock) { runtime_verb(VERB_CLOCK_START, clock, 0); }
void clock_stop(xclock_t clock) { runtime_verb(VERB_CLOCK_STOP, clock, 0); }
void clock_set_source_port(xclock_t clock, resource_t port) { runtime_verb(VERB_CLOCK_SET_SOURCE_PORT, clock, port); }
void clock_set_source_clk_ref(xclock_t clock) { runtime_verb(VERB_CLOCK_SET_SOURCE_CLK_REF, clock, 0); }
void clock_set_source_clk_xcore(xclock_t clock) { runtime_verb(VERB_CLOCK_SET_SOURCE_CLK_XCORE, clock, 0); }
void clock_set_divide(xclock_t clock, uint8_t divide) { runtime_verb(VERB_CLOCK_SET_DIVIDE, clock, divide); }

void clock_set_ready_src(xclock_t clock, resource_t port) { runtime_verb(VERB_CLOCK_SET_READY_SRC, clock, port); }

/* Settings of a port. */

void port_enable(port_t p) { runtime_verb(VERB_PORT_ENABLE, p, 0); }
void port_reset(port_t p) { runtime_verb(VERB_PORT_RESET, p, 0); }
void port_disable(port_t p) { runtime_verb(VERB_PORT_DISABLE, p, 0); }
void port_start_buffered(port_t p, size_t width) { runtime_verb(VERB_PORT_START_BUFFERED, p, (uint32_t)width); }
void port_set_transfer_width(port_t p, size_t width) { runtime_verb(VERB_PORT_SET_TRANSFER_WIDTH, p, (uint32_t)width); }
void port_set_buffered(port_t p) { runtime_verb(VERB_PORT_SET_BUFFERED, p, 0); }
void port_set_unbuffered(port_t p) { runtime_verb(VERB_PORT_SET_UNBUFFERED, p, 0); }
void port_write_control_word(port_t p, uint32_t word) { runtime_verb(VERB_PORT_WRITE_CONTROL_WORD, p, word); }
void port_set_clock(port_t p, xclock_t clock) { runtime_verb(VERB_PORT_SET_CLOCK, p, clock); }
void port_set_inout_data(port_t p) { runtime_verb(VERB_PORT_SET_INOUT_DATA, p, 0); }
void port_set_out_clock(port_t p) { runtime_verb(VERB_PORT_SET_OUT_CLOCK, p, 0); }
void port_set_invert(port_t p) { runtime_verb(VERB_PORT_SET_INVERT, p, 0); }
void port_set_no_invert(port_t p) { runtime_verb(VERB_PORT_SET_NO_INVERT, p, 0); }
void port_set_sample_falling_edge(port_t p) { runtime_verb(VERB_PORT_SET_SAMPLE_FALLING_EDGE, p, 0); }
void port_set_sample_rising_edge(port_t p) { runtime_verb(VERB_PORT_SET_SAMPLE_RISING_EDGE, p, 0); }

void port_set_out_ready(port_t p, port_t source) { runtime_verb(VERB_PORT_SET_OUT_READY, p, source); }
void port_set_master(port_t p) { runtime_verb(VERB_PORT_SET_MASTER, p, 0); }
void port_set_slave(port_t p) { runtime_verb(VERB_PORT_SET_SLAVE, p, 0); }
void port_set_no_ready(port_t p) { runtime_verb(VERB_PORT_SET_NO_READY, p, 0); }
void port_set_ready_strobed(port_t p) { runtime_verb(VERB_PORT_SET_READY_STROBED, p, 0); }
void port_set_ready_handshake(port_t p) { runtime_verb(VERB_PORT_SET_READY_HANDSHAKE, p, 0); }

/* Ready signals. */

void port_protocol_in_handshake(port_t p, port_t readyin, port_t readyout, xclock_t clk) {
    runtime_verb(VERB_PORT_PREPARE_INPUT, p, 0);
    clock_set_ready_src(clk, readyin);
    port_set_clock(p, clk);
    port_set_ready_handshake(p);
    port_clear_buffer(p);
    port_set_out_ready(readyout, p);
}
void port_protocol_out_handshake(port_t p, port_t readyin, port_t readyout, xclock_t clk, uint32_t initial) {
    runtime_verb(VERB_PORT_PREPARE_OUTPUT, p, initial);
    clock_set_ready_src(clk, readyin);
    port_set_clock(p, clk);
    port_set_ready_handshake(p);
    port_clear_buffer(p);
    port_set_out_ready(readyout, p);
}
static void be_master(port_t p, port_t readyout, xclock_t clk) {
    port_set_clock(p, clk);
    port_set_ready_strobed(p);
    port_set_master(p);
    port_clear_buffer(p);
    port_set_out_ready(readyout, p);
}
void port_protocol_in_strobed_master(port_t p, port_t readyout, xclock_t clk) {
    runtime_verb(VERB_PORT_PREPARE_INPUT, p, 0);
    be_master(p, readyout, clk);
}
void port_protocol_out_strobed_master(port_t p, port_t readyout, xclock_t clk, uint32_t initial) {
    runtime_verb(VERB_PORT_PREPARE_OUTPUT, p, initial);
    be_master(p, readyout, clk);
}
static void be_slave(port_t p, port_t readyin, xclock_t clk) {
    clock_set_ready_src(clk, readyin);
    port_set_clock(p, clk);
    port_set_ready_strobed(p);
    port_set_slave(p);
}
void port_protocol_in_strobed_slave(port_t p, port_t readyin, xclock_t clk) {
    runtime_verb(VERB_PORT_PREPARE_INPUT, p, 0);
    be_slave(p, readyin, clk);
    port_clear_buffer(p);
}
void port_protocol_out_strobed_slave(port_t p, port_t readyin, xclock_t clk, uint32_t initial) {
    runtime_verb(VERB_PORT_PREPARE_OUTPUT, p, initial);
    be_slave(p, readyin, clk);
}

/* What is set for the next output or input. */

port_timestamp_t port_get_trigger_time(port_t p) { return runtime_verb(VERB_PORT_GET_TRIGGER_TIME, p, 0); }
void port_set_trigger_time(port_t p, port_timestamp_t time) { runtime_post(VERB_PORT_SET_TRIGGER_TIME, p, time & 0xFFFF); }
void port_clear_trigger_time(port_t p) { runtime_post(VERB_PORT_CLEAR_TRIGGER_TIME, p, 0); }
void port_set_trigger_in_equal(port_t p, uint32_t value) { runtime_post(VERB_PORT_SET_TRIGGER_IN_EQUAL, p, value); }
void port_set_trigger_in_not_equal(port_t p, uint32_t value) { runtime_post(VERB_PORT_SET_TRIGGER_IN_NOT_EQUAL, p, value); }
void port_set_trigger_value(port_t p, uint32_t value) { runtime_post(VERB_PORT_SET_TRIGGER_VALUE, p, value); }
void port_clear_trigger_in(port_t p) { runtime_post(VERB_PORT_CLEAR_TRIGGER_IN, p, 0); }
void port_set_shift_count(port_t p, uint32_t bits) { runtime_post(VERB_PORT_SET_SHIFT_COUNT, p, bits); }
void port_clear_buffer(port_t p) { runtime_post(VERB_PORT_CLEAR_BUFFER, p, 0); }
int port_time_after(port_timestamp_t a, port_timestamp_t b) { return (int16_t)(b - a) < 0; }

/* Outputs and inputs. */

uint32_t port_peek(port_t p) { return runtime_verb(VERB_PORT_PEEK, p, 0); }
void port_out(port_t p, uint32_t data) { runtime_post(VERB_PORT_OUT, p, data); }
uint32_t port_in(port_t p) { return runtime_verb(VERB_PORT_IN, p, 0); }
uint32_t port_out_shift_right(port_t p, uint32_t data) { return runtime_verb(VERB_PORT_OUT_SHIFT_RIGHT, p, data); }
uint32_t port_in_shift_right(port_t p, uint32_t data) { return runtime_verb(VERB_PORT_IN_SHIFT_RIGHT, p, data); }
void port_out_part_word(port_t p, uint32_t data, uint32_t bits) {
    runtime_post_with(VERB_PORT_OUT_PART_WORD, p, data, &bits, sizeof bits);
}
size_t port_endin(port_t p) { return runtime_verb(VERB_PORT_ENDIN, p, 0); }
size_t port_force_input(port_t p, uint32_t *data) {
    size_t bits = port_endin(p);
    *data = port_in(p);
    return bits;
}
void port_sync(port_t p) { runtime_verb(VERB_PORT_SYNC, p, 0); }

/* At a time. */

void port_out_at_time(port_t p, port_timestamp_t time, uint32_t data) {
    port_set_trigger_time(p, time);
    port_out(p, data);
}
uint32_t port_in_at_time(port_t p, port_timestamp_t time) {
    port_set_trigger_time(p, time);
    return port_in(p);
}
uint32_t port_out_shift_right_at_time(port_t p, port_timestamp_t time, uint32_t data) {
    port_set_trigger_time(p, time);
    return port_out_shift_right(p, data);
}
uint32_t port_in_shift_right_at_time(port_t p, port_timestamp_t time, uint32_t data) {
    port_set_trigger_time(p, time);
    return port_in_shift_right(p, data);
}

/* On a condition, which a buffered port clears by itself. */

static uint32_t then_clear(port_t p, port_type_t type, uint32_t data) {
    if (type == PORT_UNBUFFERED) port_clear_trigger_in(p);
    return data;
}
uint32_t port_in_when_pinseq(port_t p, port_type_t type, uint32_t value) {
    port_set_trigger_in_equal(p, value);
    return then_clear(p, type, port_in(p));
}
uint32_t port_in_when_pinsneq(port_t p, port_type_t type, uint32_t value) {
    port_set_trigger_in_not_equal(p, value);
    return then_clear(p, type, port_in(p));
}
uint32_t port_in_shift_right_when_pinseq(port_t p, port_type_t type, uint32_t value, uint32_t data) {
    port_set_trigger_in_equal(p, value);
    return then_clear(p, type, port_in_shift_right(p, data));
}
uint32_t port_in_shift_right_when_pinsneq(port_t p, port_type_t type, uint32_t value, uint32_t data) {
    port_set_trigger_in_not_equal(p, value);
    return then_clear(p, type, port_in_shift_right(p, data));
}
