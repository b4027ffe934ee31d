/* Probes: values that a program records for its developer, and data from the host. A config file gives a program
 * a macro for each probe, its number; -1 where it is disabled: nothing is recorded then. */
#ifndef AISRV_XSCOPE_H
#define AISRV_XSCOPE_H

#include <xcore/chanend.h>

typedef enum {
    XSCOPE_STARTSTOP = 1, /* blocks, each with a start and a stop */
    XSCOPE_CONTINUOUS,    /* values */
    XSCOPE_DISCRETE,      /* values that stay until the next one */
    XSCOPE_STATEMACHINE,  /* states */
    XSCOPE_HISTOGRAM
} xscope_EventType;

typedef enum { XSCOPE_NONE = 0, XSCOPE_UINT, XSCOPE_INT, XSCOPE_FLOAT } xscope_UserDataType;

typedef enum { XSCOPE_IO_NONE = 0, XSCOPE_IO_BASIC, XSCOPE_IO_TIMED } xscope_IORedirectionMode;

#define XSCOPE_PROBE_ENABLED(id) ((id) != -1)

XC_BEGIN
/* The program's own, where it has one: runs on each tile before what begins there. */
void xscope_user_init(void);

/* Register probes, numbered from 0: for each its event type, name, data type and unit. A config file comes first. */
void xscope_register(int probes, ...);
void xscope_enable(void);
void xscope_disable(void);
/* What is printed appears as it is, whatever the mode. */
void xscope_config_io(unsigned mode);
void xscope_ping(void);
/* Nothing is ever lost here. */
void xscope_mode_lossless(void);
void xscope_mode_lossy(void);

void xscope_char(int id, unsigned char data);
void xscope_short(int id, unsigned short data);
void xscope_int(int id, unsigned data);
void xscope_longlong(int id, unsigned long long data);
void xscope_float(int id, float data);
void xscope_double(int id, double data);
void xscope_bytes(int id, unsigned size, const unsigned char data[]);
void xscope_start(int id);
void xscope_stop(int id);
void xscope_start_int(int id, unsigned data);
void xscope_stop_int(int id, unsigned data);

/* The same: the core is always recorded. */
void xscope_core_char(int id, unsigned char data);
void xscope_core_short(int id, unsigned short data);
void xscope_core_int(int id, unsigned data);
void xscope_core_longlong(int id, unsigned long long data);
void xscope_core_float(int id, float data);
void xscope_core_double(int id, double data);
void xscope_core_bytes(int id, unsigned size, const unsigned char data[]);
void xscope_core_start(int id);
void xscope_core_stop(int id);
void xscope_core_start_int(int id, unsigned data);
void xscope_core_stop_int(int id, unsigned data);

/* Have the host send its data to a channel end: one in the whole system. */
void xscope_connect_data_from_host(chanend_t from_host);
/* Take the next packet, up to 256 bytes; `n` becomes their number. The end is a resource for SELECT_RES. */
void xscope_data_from_host(chanend_t c, char buf[256], int *n);
XC_END

#endif
