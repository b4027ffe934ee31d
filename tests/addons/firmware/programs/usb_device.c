// A USB device that uses all of xud.h: endpoint 1 returns packets one by one, endpoint 2 by a select in one core, endpoint
// 3 counts what comes, without hearing of resets, and sends as many bytes as a request asks for. Endpoint 4 returns interrupt
// packets of 16 bytes.
#include <stdlib.h>
#include <string.h>
#include <xcore/channel.h>
#include <xcore/parallel.h>
#include <xcore/select.h>
#include <xud_device.h>

enum { PACKET = 512, STORE = 1, LOAD = 2, STALL = 3, COUNTS = 4, SEND = 5, LEAVE = 6, HANG = 7, WRONG = 8, CLEAR = 9, ENDPOINTS = 5 };

#define BULK(address) 7, USB_DESCTYPE_ENDPOINT, address, USB_ENDPOINT_TRANSTYPE_BULK, PACKET & 0xFF, PACKET >> 8, 0
#define INTERRUPT(address) 7, USB_DESCTYPE_ENDPOINT, address, USB_ENDPOINT_TRANSTYPE_INT, 16, 0, 4

static unsigned char device_descriptor[] = {
    18, USB_DESCTYPE_DEVICE, 0x00, 0x02, 0xFF, 0xFF, 0xFF, 64, 0x09, 0x12, 0x02, 0x00, 0x34, 0x12, 1, 2, 3, 1,
};
static unsigned char configuration_descriptor[] = {
    9, USB_DESCTYPE_CONFIGURATION, 97, 0, 2, 1, 4, 0xC0, 50,
    9, USB_DESCTYPE_INTERFACE, 0, 0, 4, 0xFF, 0xFF, 0xFF, 0,
    BULK(0x01), BULK(0x81), BULK(0x02), BULK(0x82),
    9, USB_DESCTYPE_INTERFACE, 1, 0, 0, 0xFF, 0xFF, 0xFF, 0,
    9, USB_DESCTYPE_INTERFACE, 1, 1, 4, 0xFF, 0xFF, 0xFF, 0,
    BULK(0x03), BULK(0x83), INTERRUPT(0x04), INTERRUPT(0x84), 5, 0x41, 1, 2, 3,
};
static char *strings[] = {"\x09\x04", "Maker", "All of XUD", "0042", "Everything"};

static struct {
    unsigned packets, bytes, resets, select_packets, kills;
} counts;
static XUD_ep echo_in; // 0x81
static chanend_t echo_end; // which leads to it
static chanend_t send_request, send_order; // the two sides of a channel to the core of endpoint 3 IN

DECLARE_JOB(endpoint_0, (chanend_t, chanend_t));
DECLARE_JOB(echo, (chanend_t, chanend_t));
DECLARE_JOB(echo_by_select, (chanend_t, chanend_t));
DECLARE_JOB(count, (chanend_t));
DECLARE_JOB(sends, (chanend_t));
DECLARE_JOB(usb_core, (chanend_t *, chanend_t *));

static unsigned char stored[256];
static unsigned stored_bytes;

static XUD_Result_t store(XUD_ep out, XUD_ep in, unsigned bytes) {
    for (stored_bytes = 0; stored_bytes < bytes;) {
        unsigned length;
        XUD_Result_t result = XUD_GetBuffer(out, stored + stored_bytes, &length);
        if (result != XUD_RES_OKAY) return result;
        stored_bytes += length;
    }
    return XUD_DoSetRequestStatus(in);
}

static XUD_Result_t vendor(XUD_ep out, XUD_ep in, USB_SetupPacket_t *s) {
    XUD_Result_t result;
    unsigned char nothing[1];
    unsigned length;
    switch (s->bRequest) {
    case STORE: return s->wLength > sizeof stored ? XUD_RES_ERR : store(out, in, s->wLength);
    case LOAD: return XUD_DoGetRequest(out, in, stored, stored_bytes, s->wLength);
    case STALL:
        XUD_SetStallByAddr(s->wIndex);
        return XUD_DoSetRequestStatus(in);
    case COUNTS: return XUD_DoGetRequest(out, in, (unsigned char *)&counts, sizeof counts, s->wLength);
    case SEND:
        result = XUD_DoSetRequestStatus(in);
        chan_out_word(send_request, s->wValue);
        return result;
    case LEAVE:
        result = XUD_DoSetRequestStatus(in);
        XUD_Kill(out);
        return result;
    case HANG: return XUD_GetBuffer(out, nothing, &length); // the host waits for data, until it gives up
    case CLEAR:
        XUD_ClearStall(echo_in);
        return XUD_DoSetRequestStatus(in);
    case WRONG: return XUD_SetBuffer(in, (unsigned char *)"wrong", 5);
    default: return XUD_RES_ERR;
    }
}

// Take note of a change; whether the endpoints have to be opened anew.
static int was_killed(XUD_ep *one, XUD_ep *two, chanend_t c_one, chanend_t c_two) {
    if (XUD_GetBusState(*one, two) == XUD_BUS_RESET) {
        if (two && XUD_ResetEndpoint(*one, two) != XUD_SPEED_HS) abort();
        if (!two && XUD_AckBusState(*one, NULL) != XUD_RES_OKAY) abort();
        return 0;
    }
    if (XUD_ResetEndpoint(*one, two) != XUD_SPEED_KILL) abort();
    XUD_CloseEndpoint(*one);
    if (two) XUD_CloseEndpoint(*two);
    *one = XUD_InitEp(c_one);
    if (two) *two = XUD_InitEp(c_two);
    return 1;
}

void endpoint_0(chanend_t c_out, chanend_t c_in) {
    XUD_ep out = XUD_InitEp(c_out), in = XUD_InitEp(c_in);
    for (;;) {
        USB_SetupPacket_t s, again;
        unsigned char bytes[8];
        XUD_Result_t result = USB_GetSetupPacket(out, in, &s);
        if (result == XUD_RES_OKAY) {
            USB_ComposeSetupBuffer(s, bytes);
            USB_ParseSetupPacket(bytes, &again);
            if (memcmp(&s, &again, sizeof s)) abort();
            if (s.bmRequestType.Type == USB_BM_REQTYPE_TYPE_VENDOR) {
                result = vendor(out, in, &s);
                if (result == XUD_RES_ERR && s.bRequest != HANG) { // that of HANG is another transfer's
                    XUD_SetStall(out);
                    XUD_SetStall(in);
                }
            } else {
                result = USB_StandardRequests(out, in, device_descriptor, sizeof device_descriptor, configuration_descriptor,
                                              sizeof configuration_descriptor, NULL, 0, NULL, 0, strings, 5, &s, XUD_SPEED_HS);
            }
        }
        if (result == XUD_RES_RST) {
            if (was_killed(&out, &in, c_out, c_in)) {
                counts.kills++;
            } else {
                counts.resets++;
            }
        }
    }
}

void echo(chanend_t c_out, chanend_t c_in) {
    XUD_ep out = XUD_InitEp(c_out), in = XUD_InitEp(c_in);
    unsigned char packet[PACKET];
    if (c_in == echo_end) echo_in = in;
    for (;;) {
        unsigned length;
        XUD_Result_t result = XUD_GetBuffer(out, packet, &length);
        if (result == XUD_RES_OKAY) result = XUD_SetBuffer(in, packet, length);
        if (result == XUD_RES_RST) was_killed(&out, &in, c_out, c_in);
    }
}

void echo_by_select(chanend_t c_out, chanend_t c_in) {
    XUD_ep out = XUD_InitEp(c_out), in = XUD_InitEp(c_in);
    unsigned char packet[PACKET];
    unsigned length;
    XUD_Result_t result = XUD_SetReady_Out(out, packet);
    SELECT_RES(CASE_THEN(c_out, on_out), CASE_THEN(c_in, on_in)) {
    on_out:
        XUD_GetData_Select(c_out, out, &length, &result);
        if (result == XUD_RES_OKAY) {
            counts.select_packets++;
            result = XUD_SetReady_InPtr(in, (unsigned)(uintptr_t)packet, (int)length);
        }
        if (result == XUD_RES_RST) goto changed;
        continue;
    on_in:
        XUD_SetData_Select(c_in, in, &result);
        if (result == XUD_RES_RST) goto changed;
        XUD_SetReady_OutPtr(out, (unsigned)(uintptr_t)packet);
        continue;
    changed:
        was_killed(&out, &in, c_out, c_in);
        while (XUD_SetReady_Out(out, packet) == XUD_RES_RST) was_killed(&out, &in, c_out, c_in);
        continue;
    }
}

void count(chanend_t c_out) {
    XUD_ep out = XUD_InitEp(c_out);
    unsigned char packet[PACKET];
    for (;;) {
        unsigned length;
        if (XUD_GetBuffer(out, packet, &length) == XUD_RES_RST) { // which only a kill is, here
            was_killed(&out, NULL, c_out, 0);
            continue;
        }
        counts.packets++;
        counts.bytes += length;
    }
}

void sends(chanend_t c_in) {
    XUD_ep in = XUD_InitEp(c_in);
    unsigned char *data = malloc(65536);
    for (int i = 0; i < 65536; i++) data[i] = (unsigned char)(i * 7 + i / 256 * 13 + 1);
    for (;;) {
        unsigned bytes = chan_in_word(send_order);
        if (XUD_SetBuffer_EpMax(in, data, bytes, PACKET) == XUD_RES_RST) was_killed(&in, NULL, c_in, 0);
    }
}

void usb_core(chanend_t *c_out, chanend_t *c_in) {
    const unsigned told = XUD_EPTYPE_BUL | XUD_STATUS_ENABLE;
    XUD_EpType types[] = {XUD_EPTYPE_CTL | XUD_STATUS_ENABLE, told, told, XUD_EPTYPE_BUL, XUD_EPTYPE_INT | XUD_STATUS_ENABLE};
    for (;;) {
        XUD_Main(c_out, ENDPOINTS, c_in, ENDPOINTS, 0, types, types, XUD_SPEED_HS, XUD_PWR_SELF);
        XUD_Manager(c_out, ENDPOINTS, c_in, ENDPOINTS, 0, types, types, 0, 0, 0, XUD_SPEED_HS, XUD_PWR_SELF);
    }
}

void usb_device(void) {
    chanend_t out[ENDPOINTS], c_out[ENDPOINTS], in[ENDPOINTS], c_in[ENDPOINTS];
    for (int i = 0; i < ENDPOINTS; i++) {
        channel_t c = chan_alloc(), d = chan_alloc();
        out[i] = c.end_a, c_out[i] = c.end_b;
        in[i] = d.end_a, c_in[i] = d.end_b;
    }
    echo_end = in[1];
    channel_t orders = chan_alloc();
    send_request = orders.end_a, send_order = orders.end_b;
    PAR_JOBS(PJOB(endpoint_0, (out[0], in[0])), PJOB(echo, (out[1], in[1])), PJOB(echo_by_select, (out[2], in[2])),
             PJOB(count, (out[3])), PJOB(sends, (in[3])), PJOB(echo, (out[4], in[4])),
             PJOB(usb_core, (c_out, c_in)));
}
