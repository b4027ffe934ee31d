/* Control transfers of a device in C, by section 9.4 of the Universal Serial Bus Specification 2.0. */
#include <string.h>
#include <xud_device.h>

#include "runtime.h"

enum { INTERFACES = 16, LONGEST_STRING = 126, LONGEST_CONFIGURATION = 4096, HALTED = 1, SELF_POWERED = 0x40 };

void USB_ParseSetupPacket(unsigned char b[], USB_SetupPacket_t *p) {
    p->bmRequestType.Recipient = b[0] & 0x1F;
    p->bmRequestType.Type = b[0] >> 5 & 3;
    p->bmRequestType.Direction = b[0] >> 7;
    p->bRequest = b[1];
    p->wValue = (unsigned short)(b[2] | b[3] << 8);
    p->wIndex = (unsigned short)(b[4] | b[5] << 8);
    p->wLength = (unsigned short)(b[6] | b[7] << 8);
}
static unsigned char type_of(const USB_SetupPacket_t *p) {
    return (unsigned char)(p->bmRequestType.Direction << 7 | p->bmRequestType.Type << 5 | p->bmRequestType.Recipient);
}
void USB_ComposeSetupBuffer(USB_SetupPacket_t sp, unsigned char buffer[]) {
    const unsigned short words[] = {sp.wValue, sp.wIndex, sp.wLength};
    buffer[0] = type_of(&sp);
    buffer[1] = sp.bRequest;
    for (int i = 0; i < 3; i++) {
        buffer[2 + 2 * i] = (unsigned char)words[i];
        buffer[3 + 2 * i] = (unsigned char)(words[i] >> 8);
    }
}
void USB_PrintSetupPacket(USB_SetupPacket_t sp) {
    const struct {
        const char *name;
        unsigned value;
    } fields[] = {{"bmRequestType ", type_of(&sp)}, {"bRequest ", sp.bRequest}, {"wValue ", sp.wValue},
                  {"wIndex ", sp.wIndex},           {"wLength ", sp.wLength}};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        printstr(fields[i].name);
        printhexln(fields[i].value);
    }
}
XUD_Result_t USB_GetSetupPacket(XUD_ep ep_out, XUD_ep ep_in, USB_SetupPacket_t *sp) {
    unsigned char bytes[8];
    unsigned length;
    (void)ep_in;
    XUD_Result_t result = XUD_GetSetupBuffer(ep_out, bytes, &length);
    if (result == XUD_RES_OKAY) USB_ParseSetupPacket(bytes, sp);
    return result;
}

/* A request, and the descriptors that answer it. */
typedef struct {
    unsigned char *bytes;
    unsigned length;
} part_t;
typedef struct {
    XUD_ep out, in;
    const USB_SetupPacket_t *setup;
    part_t device, configuration;             /* of the bus's speed */
    part_t other_device, other_configuration; /* of the other speed, or the same */
    char **strings;
    int string_count;
} usb_request_t;

static XUD_Result_t refuse(const usb_request_t *r) {
    XUD_SetStall(r->out);
    XUD_SetStall(r->in);
    return XUD_RES_ERR;
}
static XUD_Result_t send(const usb_request_t *r, unsigned char *data, unsigned length) {
    return XUD_DoGetRequest(r->out, r->in, data, length, r->setup->wLength);
}
static XUD_Result_t send_word(const usb_request_t *r, unsigned word) {
    unsigned char bytes[2] = {(unsigned char)word, (unsigned char)(word >> 8)};
    return send(r, bytes, sizeof bytes);
}

/* What a configuration says of its interfaces and endpoints. */

static int has_setting(const usb_request_t *r, unsigned interface, unsigned alternate) {
    const part_t *c = &r->configuration;
    for (unsigned at = 0; at + 4 <= c->length && c->bytes[at] >= 2; at += c->bytes[at]) {
        const unsigned char *d = c->bytes + at;
        if (d[1] == USB_DESCTYPE_INTERFACE && d[2] == interface && d[3] == alternate) return 1;
    }
    return 0;
}
/* Whether there is an endpoint of that address; with `interface` below 256, within that one. */
static unsigned next_endpoint(const part_t *c, unsigned *at, unsigned interface, unsigned *inside) {
    while (*at + 4 <= c->length && c->bytes[*at] >= 2) {
        const unsigned char *d = c->bytes + *at;
        *at += d[0];
        if (d[1] == USB_DESCTYPE_INTERFACE) *inside = d[2];
        if (d[1] == USB_DESCTYPE_ENDPOINT && (interface > 255 || *inside == interface)) return d[2];
    }
    return 0;
}
static int has_endpoint(const usb_request_t *r, unsigned address) {
    unsigned at = 0, inside = 256, found;
    while ((found = next_endpoint(&r->configuration, &at, 256, &inside)) != 0) {
        if (found == address) return 1;
    }
    return 0;
}
static void reset_endpoints(const usb_request_t *r, unsigned interface) {
    unsigned at = 0, inside = 256, found;
    while ((found = next_endpoint(&r->configuration, &at, interface, &inside)) != 0) XUD_ResetEpStateByAddr(found);
}
static int is_endpoint_zero(const usb_request_t *r) { return (r->setup->wIndex & 0x0F) == 0; }

/* Whether the request's interface, or endpoint, is there in the present configuration. */
static int is_interface(const usb_request_t *r) {
    return g_currentConfig && r->setup->wIndex < INTERFACES && has_setting(r, r->setup->wIndex, 0);
}
static int is_endpoint(const usb_request_t *r) {
    return is_endpoint_zero(r) || (g_currentConfig && has_endpoint(r, r->setup->wIndex & 0x8F));
}

/* Descriptors, section 9.4.3. */

static XUD_Result_t get_string(const usb_request_t *r, int index) {
    unsigned char data[2 + 2 * LONGEST_STRING];
    if (index >= r->string_count) return refuse(r);
    const char *text = r->strings[index];
    unsigned length = (unsigned)strlen(text), bytes = 2;
    if (length > LONGEST_STRING) length = LONGEST_STRING;
    for (unsigned i = 0; i < length; i++) {
        data[bytes++] = (unsigned char)text[i];
        if (index) data[bytes++] = 0; /* UNICODE; number 0 is words already */
    }
    data[0] = (unsigned char)bytes;
    data[1] = USB_DESCTYPE_STRING;
    return send(r, data, bytes);
}
static XUD_Result_t get_configuration_as(const usb_request_t *r, const part_t *c, unsigned char type) {
    unsigned char data[LONGEST_CONFIGURATION];
    if (c->length < 2 || c->length > sizeof data) return refuse(r);
    memcpy(data, c->bytes, c->length);
    data[1] = type;
    return send(r, data, c->length);
}
static XUD_Result_t get_qualifier(const usb_request_t *r) {
    const unsigned char *d = r->other_device.bytes;
    if (r->other_device.length < 18) return refuse(r);
    unsigned char data[10] = {sizeof data, USB_DESCTYPE_DEVICE_QUALIFIER, d[2], d[3], d[4], d[5], d[6], d[7], d[17], 0};
    return send(r, data, sizeof data);
}
static XUD_Result_t get_descriptor(const usb_request_t *r) {
    unsigned type = r->setup->wValue >> 8, index = r->setup->wValue & 0xFF;
    if (type == USB_DESCTYPE_STRING) return get_string(r, (int)index);
    if (index) return refuse(r);
    switch (type) {
    case USB_DESCTYPE_DEVICE: return r->device.length ? send(r, r->device.bytes, r->device.length) : refuse(r);
    case USB_DESCTYPE_CONFIGURATION: return get_configuration_as(r, &r->configuration, USB_DESCTYPE_CONFIGURATION);
    case USB_DESCTYPE_DEVICE_QUALIFIER: return get_qualifier(r);
    case USB_DESCTYPE_OTHER_SPEED: return get_configuration_as(r, &r->other_configuration, USB_DESCTYPE_OTHER_SPEED);
    default: return refuse(r);
    }
}

/* The other requests of the device. */

static XUD_Result_t get_device_status(const usb_request_t *r) {
    return send_word(r, r->configuration.length > 7 && (r->configuration.bytes[7] & SELF_POWERED) != 0);
}
static XUD_Result_t get_configuration(const usb_request_t *r) { return send(r, &g_currentConfig, 1); }
static XUD_Result_t set_configuration(const usb_request_t *r) {
    unsigned value = r->setup->wValue;
    if (value && (r->configuration.length < 6 || value != r->configuration.bytes[5])) return refuse(r);
    reset_endpoints(r, 256);
    memset(g_interfaceAlt, 0, sizeof g_interfaceAlt);
    g_currentConfig = (unsigned char)value;
    return XUD_DoSetRequestStatus(r->in);
}
static XUD_Result_t set_address(const usb_request_t *r) {
    if (r->setup->wValue > 127) return refuse(r);
    XUD_Result_t result = XUD_DoSetRequestStatus(r->in);
    if (result == XUD_RES_OKAY) runtime_verb(VERB_XUD_SET_ADDRESS, r->setup->wValue, 0);
    return result;
}

/* Interfaces and endpoints. */

static XUD_Result_t get_interface_status(const usb_request_t *r) { return is_interface(r) ? send_word(r, 0) : refuse(r); }
static XUD_Result_t get_interface(const usb_request_t *r) {
    return is_interface(r) ? send(r, &g_interfaceAlt[r->setup->wIndex], 1) : refuse(r);
}
static XUD_Result_t set_interface(const usb_request_t *r) {
    if (!is_interface(r) || !has_setting(r, r->setup->wIndex, r->setup->wValue)) return refuse(r);
    reset_endpoints(r, r->setup->wIndex);
    g_interfaceAlt[r->setup->wIndex] = (unsigned char)r->setup->wValue;
    return XUD_DoSetRequestStatus(r->in);
}
static XUD_Result_t get_endpoint_status(const usb_request_t *r) {
    if (!is_endpoint(r)) return refuse(r);
    unsigned halted = !is_endpoint_zero(r) && runtime_verb(VERB_XUD_STALLED, r->setup->wIndex & 0x8F, 0);
    return send_word(r, halted ? HALTED : 0);
}
static XUD_Result_t change_halt(const usb_request_t *r, int halted) {
    if (r->setup->wValue != USB_ENDPOINT_HALT || !is_endpoint(r)) return refuse(r);
    if (!is_endpoint_zero(r)) {
        if (halted) {
            XUD_SetStallByAddr(r->setup->wIndex & 0x8F);
        } else {
            XUD_ClearStallByAddr(r->setup->wIndex & 0x8F);
        }
    }
    return XUD_DoSetRequestStatus(r->in);
}
static XUD_Result_t clear_halt(const usb_request_t *r) { return change_halt(r, 0); }
static XUD_Result_t set_halt(const usb_request_t *r) { return change_halt(r, 1); }

static const struct {
    unsigned char type, request;
    XUD_Result_t (*answer)(const usb_request_t *);
} answers[] = {
    {USB_BMREQ_D2H_STANDARD_DEV, USB_GET_STATUS, get_device_status},
    {USB_BMREQ_D2H_STANDARD_INT, USB_GET_STATUS, get_interface_status},
    {USB_BMREQ_D2H_STANDARD_EP, USB_GET_STATUS, get_endpoint_status},
    {USB_BMREQ_H2D_STANDARD_EP, USB_CLEAR_FEATURE, clear_halt},
    {USB_BMREQ_H2D_STANDARD_EP, USB_SET_FEATURE, set_halt},
    {USB_BMREQ_H2D_STANDARD_DEV, USB_SET_ADDRESS, set_address},
    {USB_BMREQ_D2H_STANDARD_DEV, USB_GET_DESCRIPTOR, get_descriptor},
    {USB_BMREQ_D2H_STANDARD_DEV, USB_GET_CONFIGURATION, get_configuration},
    {USB_BMREQ_H2D_STANDARD_DEV, USB_SET_CONFIGURATION, set_configuration},
    {USB_BMREQ_D2H_STANDARD_INT, USB_GET_INTERFACE, get_interface},
    {USB_BMREQ_H2D_STANDARD_INT, USB_SET_INTERFACE, set_interface},
};

XUD_Result_t USB_StandardRequests(XUD_ep ep_out, XUD_ep ep_in, unsigned char *devDesc_hs, int devDescLength_hs,
                                  unsigned char *cfgDesc_hs, int cfgDescLength_hs, unsigned char *devDesc_fs,
                                  int devDescLength_fs, unsigned char *cfgDesc_fs, int cfgDescLength_fs,
                                  char *strDescs[], int strDescsLength, USB_SetupPacket_t *sp,
                                  XUD_BusSpeed_t usbBusSpeed) {
    const part_t high_device = {devDesc_hs, (unsigned)devDescLength_hs};
    const part_t high_configuration = {cfgDesc_hs, (unsigned)cfgDescLength_hs};
    const part_t full_device = {devDesc_fs, (unsigned)devDescLength_fs};
    const part_t full_configuration = {cfgDesc_fs, (unsigned)cfgDescLength_fs};
    (void)usbBusSpeed; /* the bus is at high speed, also where a program has not asked for its speed yet */
    const usb_request_t r = {ep_out,
                          ep_in,
                          sp,
                          high_device,
                          high_configuration,
                          full_device.length ? full_device : high_device,
                          full_configuration.length ? full_configuration : high_configuration,
                          strDescs,
                          strDescsLength};
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        if (answers[i].type == type_of(sp) && answers[i].request == sp->bRequest) {
            int has_data = !sp->bmRequestType.Direction && sp->wLength; /* none of these has any */
            return has_data ? refuse(&r) : answers[i].answer(&r);
        }
    }
    return refuse(&r);
}
