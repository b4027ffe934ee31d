/* Ports: outputs and inputs on pins, clocked by a clock block. */
#ifndef AISRV_XCORE_PORT_H
#define AISRV_XCORE_PORT_H

#include <xcore/clock.h>
#include <xcore/triggerable.h>

typedef resource_t port_t;

typedef enum port_type_t {
    PORT_UNBUFFERED = 0,
    PORT_BUFFERED = 1,
} port_type_t;

/* A value of a port's counter, which has 16 bits. */
typedef uint32_t port_timestamp_t;
#define PORT_TIMESTAMP_MIN 0
#define PORT_TIMESTAMP_MAX 65535

XC_BEGIN
/* Enable a port: an input, not buffered, of its own width, clocked by XS1_CLKBLK_REF. */
void port_enable(port_t p);
/* Give it these settings again. */
void port_reset(port_t p);
/* Enable it buffered, with words of `transfer_width` bits. */
void port_start_buffered(port_t p, size_t transfer_width);
void port_disable(port_t p);
void port_set_transfer_width(port_t p, size_t transfer_width);
void port_set_buffered(port_t p);
void port_set_unbuffered(port_t p);
/* How it drives its pins: XS1_SETC_DRIVE_DRIVE, _PULL_UP, _PULL_DOWN. */
void port_write_control_word(port_t p, uint32_t word);
void port_set_clock(port_t p, xclock_t clock);

/* What it drives: its data, or the signal of its clock. */
void port_set_inout_data(port_t p);
void port_set_out_clock(port_t p);
void port_set_invert(port_t p);
void port_set_no_invert(port_t p);
void port_set_sample_falling_edge(port_t p);
void port_set_sample_rising_edge(port_t p);

/* Ready signals, best set up by <xcore/port_protocol.h>. What is driven, on a 1-bit port: the one of `source`. */
void port_set_out_ready(port_t p, port_t source);
/* A master drives the signal, a strobed slave reads that of its clock; the port is buffered. */
void port_set_master(port_t p);
void port_set_slave(port_t p);
void port_set_no_ready(port_t p);
void port_set_ready_strobed(port_t p);
void port_set_ready_handshake(port_t p);

/* The counter at its last output or input, and the one at which the next is to be. */
port_timestamp_t port_get_trigger_time(port_t p);
void port_set_trigger_time(port_t p, port_timestamp_t time);
void port_clear_trigger_time(port_t p);
/* Conditions of inputs: they hold until cleared, or where it is buffered until they are met. */
void port_set_trigger_in_equal(port_t p, uint32_t value);
void port_set_trigger_in_not_equal(port_t p, uint32_t value);
void port_set_trigger_value(port_t p, uint32_t value);
void port_clear_trigger_in(port_t p);

/* The pins now. A loop that only looks lets time pass, until they change. */
uint32_t port_peek(port_t p);
void port_out(port_t p, uint32_t data);
uint32_t port_in(port_t p);
/* Output the lowest bits, and return the others, shifted down. */
uint32_t port_out_shift_right(port_t p, uint32_t data);
/* Shift `data` down, and put the input into its highest bits. */
uint32_t port_in_shift_right(port_t p, uint32_t data);
void port_out_at_time(port_t p, port_timestamp_t time, uint32_t data);
uint32_t port_in_at_time(port_t p, port_timestamp_t time);
uint32_t port_out_shift_right_at_time(port_t p, port_timestamp_t time, uint32_t data);
uint32_t port_in_shift_right_at_time(port_t p, port_timestamp_t time, uint32_t data);
uint32_t port_in_when_pinseq(port_t p, port_type_t type, uint32_t value);
uint32_t port_in_when_pinsneq(port_t p, port_type_t type, uint32_t value);
uint32_t port_in_shift_right_when_pinseq(port_t p, port_type_t type, uint32_t value, uint32_t data);
uint32_t port_in_shift_right_when_pinsneq(port_t p, port_type_t type, uint32_t value, uint32_t data);

/* Drop what was not input yet, and what was not driven yet. */
void port_clear_buffer(port_t p);
/* End an input before its word is whole, and return how many bits there are; the next inputs take them. */
size_t port_endin(port_t p);
/* The same, and the input: how many bits, and the bits in `data`. */
size_t port_force_input(port_t p, uint32_t *data);
/* Wait until all that was output has been driven for a clock period. */
void port_sync(port_t p);
/* How many bits the next word has. */
void port_set_shift_count(port_t p, uint32_t bits);
/* Output the lowest bits of a word. */
void port_out_part_word(port_t p, uint32_t data, uint32_t bits);
void port_setup_interrupt_callback(port_t p, void *data, interrupt_callback_t callback);
/* Whether a counter's value comes after another, within half its range. */
int port_time_after(port_timestamp_t a, port_timestamp_t b);
XC_END

#endif
