// A USB device in C: what a host writes to endpoint 1, it reads from endpoint 1. `examples/firmware/loopback.toml` runs it.
#include <string.h>
#include <xcore/channel.h>
#include <xcore/parallel.h>
#include <xud_device.h>

#define PACKET 512

static unsigned char device_descriptor[] = {
    18, USB_DESCTYPE_DEVICE, 0x00, 0x02,        // USB 2.0
    0xFF, 0xFF, 0xFF, 64,                       // a class of the vendor's, packets of 64 bytes at endpoint 0
    0x09, 0x12, 0x01, 0x00, 0x00, 0x01,         // 1209:0001, which is for tests; version 1.0
    1, 2, 0, 1,                                 // strings, and one configuration
};

static unsigned char configuration_descriptor[] = {
    9, USB_DESCTYPE_CONFIGURATION, 32, 0, 1, 1, 0, 0x80, 50,
    9, USB_DESCTYPE_INTERFACE, 0, 0, 2, 0xFF, 0xFF, 0xFF, 0,
    7, USB_DESCTYPE_ENDPOINT, 0x01, USB_ENDPOINT_TRANSTYPE_BULK, PACKET & 0xFF, PACKET >> 8, 0,
    7, USB_DESCTYPE_ENDPOINT, 0x81, USB_ENDPOINT_TRANSTYPE_BULK, PACKET & 0xFF, PACKET >> 8, 0,
};

static char *strings[] = {"\x09\x04", "Example", "Loopback"};

DECLARE_JOB(endpoint_0, (chanend_t, chanend_t));
DECLARE_JOB(echo, (chanend_t, chanend_t));
DECLARE_JOB(usb_core, (chanend_t *, chanend_t *));

void endpoint_0(chanend_t c_out, chanend_t c_in) {
    XUD_ep out = XUD_InitEp(c_out), in = XUD_InitEp(c_in);
    XUD_BusSpeed_t speed = XUD_SPEED_HS;
    for (;;) {
        USB_SetupPacket_t setup;
        XUD_Result_t result = USB_GetSetupPacket(out, in, &setup);
        if (result == XUD_RES_OKAY) {
            result = USB_StandardRequests(out, in, device_descriptor, sizeof device_descriptor, configuration_descriptor,
                                          sizeof configuration_descriptor, NULL, 0, NULL, 0, strings, 3, &setup, speed);
        }
        if (result == XUD_RES_RST) speed = XUD_ResetEndpoint(out, &in);
    }
}

void echo(chanend_t c_out, chanend_t c_in) {
    XUD_ep out = XUD_InitEp(c_out), in = XUD_InitEp(c_in);
    unsigned char packet[PACKET];
    for (;;) {
        unsigned length;
        XUD_Result_t result = XUD_GetBuffer(out, packet, &length);
        if (result == XUD_RES_OKAY) result = XUD_SetBuffer(in, packet, length);
        if (result == XUD_RES_RST) XUD_ResetEndpoint(out, &in);
    }
}

void usb_core(chanend_t *c_out, chanend_t *c_in) {
    XUD_EpType types[] = {XUD_EPTYPE_CTL | XUD_STATUS_ENABLE, XUD_EPTYPE_BUL | XUD_STATUS_ENABLE};
    XUD_Main(c_out, 2, c_in, 2, 0, types, types, XUD_SPEED_HS, XUD_PWR_BUS);
}

void loopback(void) {
    channel_t c[4];
    for (int i = 0; i < 4; i++) c[i] = chan_alloc();
    chanend_t c_out[] = {c[0].end_b, c[1].end_b}, c_in[] = {c[2].end_b, c[3].end_b};
    PAR_JOBS(PJOB(endpoint_0, (c[0].end_a, c[2].end_a)), PJOB(echo, (c[1].end_a, c[3].end_a)),
             PJOB(usb_core, (c_out, c_in)));
}
