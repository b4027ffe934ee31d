/* Constants of the architecture, which all headers include. */
#ifndef AISRV_XS1_H
#define AISRV_XS1_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#define XC_BEGIN extern "C" {
#define XC_END }
#else
#define XC_BEGIN
#define XC_END
#endif

#ifdef __cplusplus
#define XC_MISSING(name, instead) extern "C" int name(...) __attribute__((error(#name " is not there on the host: " instead)));
#else
#define XC_MISSING(name, instead) int name() __attribute__((error(#name " is not there on the host: " instead)));
#endif

#include <xs1_ports.h>

typedef uint32_t resource_t;

#define XS1_CT_END 1
#define XS1_CT_PAUSE 2
#define XS1_CT_ACK 3
#define XS1_CT_NACK 4

#define XS1_RES_TYPE_PORT 0
#define XS1_RES_TYPE_TIMER 1
#define XS1_RES_TYPE_CHANEND 2
#define XS1_RES_TYPE_SYNC 3
#define XS1_RES_TYPE_THREAD 4
#define XS1_RES_TYPE_LOCK 5
#define XS1_RES_TYPE_CLKBLK 6

/* Bits of a core's status register: whether it takes events, and interrupts. */
#define XS1_SR_EEBLE_MASK 0x1
#define XS1_SR_IEBLE_MASK 0x2

#define XS1_TIMER_HZ 100000000
#define XS1_TIMER_KHZ 100000
#define XS1_TIMER_MHZ 100

XC_BEGIN
/* The clock of all tiles: 32 bits of 10 ns ticks. */
uint32_t get_reference_time(void);

/* The logical core that runs this, 0 to 7. */
unsigned get_logical_core_id(void);
XC_END

#endif
