/* The functions of xscope: records are verbs, which are posted where a word holds the value. */
#include <stdarg.h>
#include <string.h>
#include <xcore/channel_streaming.h>
#include <xscope.h>

#include "runtime.h"

enum { MOST_TEXT = 65536, PACKET = 256 };

static void record(int id, unsigned form, uint32_t word) {
    runtime_post(VERB_XSCOPE_RECORD, (uint8_t)id | form << 8, word);
}
static void record_bytes(int id, unsigned form, const void *data, size_t bytes) {
    runtime_verb_with(VERB_XSCOPE_RECORD, (uint8_t)id | form << 8, 0, data, bytes, NULL, 0);
}
static void control(unsigned what) { runtime_post(VERB_XSCOPE_CONTROL, what, 0); }

static size_t put_text(uint8_t *list, size_t length, const char *text) {
    size_t bytes = strlen(text) + 1;
    if (length + bytes > MOST_TEXT) runtime_trap(TRAP_ECALL, "xscope_register: names are too long");
    memcpy(list + length, text, bytes);
    return length + bytes;
}

void xscope_register(int probes, ...) {
    static uint8_t list[MOST_TEXT];
    size_t length = 0;
    va_list given;
    va_start(given, probes);
    for (int i = 0; i < probes; i++) {
        int kind = va_arg(given, int);
        const char *name = va_arg(given, const char *);
        int type = va_arg(given, int);
        const char *unit = va_arg(given, const char *);
        if (length + 2 > MOST_TEXT) runtime_trap(TRAP_ECALL, "xscope_register: names are too long");
        list[length++] = (uint8_t)kind;
        list[length++] = (uint8_t)type;
        length = put_text(list, length, name);
        length = put_text(list, length, unit);
    }
    va_end(given);
    runtime_verb_with(VERB_XSCOPE_REGISTER, 0, 0, list, length, NULL, 0);
}

void xscope_enable(void) { control(CONTROL_ENABLE); }
void xscope_disable(void) { control(CONTROL_DISABLE); }
void xscope_ping(void) { control(CONTROL_PING); }
void xscope_config_io(unsigned mode) { (void)mode; }
void xscope_mode_lossless(void) {}
void xscope_mode_lossy(void) {}

void xscope_char(int id, unsigned char data) { record(id, FORM_WORD, data); }
void xscope_short(int id, unsigned short data) { record(id, FORM_WORD, data); }
void xscope_int(int id, unsigned data) { record(id, FORM_WORD, data); }
void xscope_longlong(int id, unsigned long long data) { record_bytes(id, FORM_LONG, &data, sizeof data); }
void xscope_float(int id, float data) {
    uint32_t word;
    memcpy(&word, &data, sizeof word);
    record(id, FORM_FLOAT, word);
}
void xscope_double(int id, double data) { record_bytes(id, FORM_DOUBLE, &data, sizeof data); }
void xscope_bytes(int id, unsigned size, const unsigned char data[]) {
    if (size > LARGEST_RECORD) runtime_trap(TRAP_ECALL, "xscope_bytes: too many bytes");
    record_bytes(id, FORM_BYTES, data, size);
}
void xscope_start(int id) { record(id, FORM_START, 0); }
void xscope_stop(int id) { record(id, FORM_STOP, 0); }
void xscope_start_int(int id, unsigned data) { record(id, FORM_START_WORD, data); }
void xscope_stop_int(int id, unsigned data) { record(id, FORM_STOP_WORD, data); }

void xscope_core_char(int id, unsigned char data) { xscope_char(id, data); }
void xscope_core_short(int id, unsigned short data) { xscope_short(id, data); }
void xscope_core_int(int id, unsigned data) { xscope_int(id, data); }
void xscope_core_longlong(int id, unsigned long long data) { xscope_longlong(id, data); }
void xscope_core_float(int id, float data) { xscope_float(id, data); }
void xscope_core_double(int id, double data) { xscope_double(id, data); }
void xscope_core_bytes(int id, unsigned size, const unsigned char data[]) { xscope_bytes(id, size, data); }
void xscope_core_start(int id) { xscope_start(id); }
void xscope_core_stop(int id) { xscope_stop(id); }
void xscope_core_start_int(int id, unsigned data) { xscope_start_int(id, data); }
void xscope_core_stop_int(int id, unsigned data) { xscope_stop_int(id, data); }

void xscope_connect_data_from_host(chanend_t from_host) { runtime_verb(VERB_XSCOPE_CONNECT, from_host, 0); }
void xscope_data_from_host(chanend_t c, char buf[256], int *n) {
    uint32_t bytes = s_chan_in_word(c);
    if (bytes > PACKET) runtime_trap(TRAP_ILLEGAL_RESOURCE, "xscope_data_from_host: no packet of the host's");
    s_chan_in_buf_byte(c, (uint8_t *)buf, bytes);
    s_chan_check_ct_end(c);
    *n = (int)bytes;
}
