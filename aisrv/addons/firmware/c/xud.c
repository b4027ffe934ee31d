/* USB endpoints of a program: each call a verb on the bus that the board gives it. */
#include <string.h>
#include <xud.h>
#include <xud_device.h>

#include "runtime.h"

enum { ENDS = 256, MOST = USB_MAX_NUM_EP_OUT, PACKET = 1024, CONTROL_PACKET = 64 };

/* What xud_device.c has answered the host: a reset of the bus takes it back. */
unsigned char g_currentConfig;
unsigned char g_interfaceAlt[sizeof g_interfaceAlt];

/* What is known of an endpoint by the number of its channel end. */
static struct {
    unsigned char address;
    unsigned char *buffer; /* of XUD_SetReady_Out */
} endpoints[ENDS];

static unsigned number_of(XUD_ep ep) { return ep >> 8 & 0xFF; }
static unsigned address_of(XUD_ep ep) { return endpoints[number_of(ep)].address; }

static XUD_Result_t outcome(uint32_t value) {
    if (value == XUD_VERB_UPDATE) return XUD_RES_UPDATE;
    return value == XUD_VERB_ERROR ? XUD_RES_ERR : XUD_RES_OKAY;
}
static XUD_Result_t received(uint32_t value, unsigned *length) {
    XUD_Result_t result = outcome(value);
    *length = result == XUD_RES_OKAY ? value : 0;
    return result;
}

/* The core on the bus. */

int XUD_Main(chanend c_epOut[], int noEpOut, chanend c_epIn[], int noEpIn, chanend c_sof, XUD_EpType epTypeTableOut[],
             XUD_EpType epTypeTableIn[], XUD_BusSpeed_t desiredSpeed, XUD_PwrConfig pwrConfig) {
    struct {
        uint32_t end, type;
    } table[2 * MOST];
    (void)pwrConfig;
    if (noEpOut < 1 || noEpOut > MOST || noEpIn < 1 || noEpIn > MOST) {
        runtime_trap(TRAP_ECALL, "XUD_Main has 1 to 16 endpoints of each direction");
    }
    if (c_sof) runtime_trap(TRAP_ILLEGAL_RESOURCE, "there are no start-of-frame tokens here: give XUD_Main 0 for c_sof");
    for (int i = 0; i < noEpOut; i++) {
        table[i].end = c_epOut[i];
        table[i].type = epTypeTableOut[i];
    }
    for (int i = 0; i < noEpIn; i++) {
        table[noEpOut + i].end = c_epIn[i];
        table[noEpOut + i].type = epTypeTableIn[i];
    }
    runtime_verb_with(VERB_XUD_MAIN, (uint32_t)noEpOut, desiredSpeed == XUD_SPEED_FS, table,
                      (size_t)(noEpOut + noEpIn) * sizeof *table, NULL, 0);
    return 0;
}
int XUD_Manager(chanend c_epOut[], int noEpOut, chanend c_epIn[], int noEpIn, chanend c_sof, XUD_EpType epTypeTableOut[],
                XUD_EpType epTypeTableIn[], resource_t p_usb_rst, resource_t clk, unsigned rstMask,
                XUD_BusSpeed_t desiredSpeed, XUD_PwrConfig pwrConfig) {
    (void)p_usb_rst;
    (void)clk;
    (void)rstMask;
    return XUD_Main(c_epOut, noEpOut, c_epIn, noEpIn, c_sof, epTypeTableOut, epTypeTableIn, desiredSpeed, pwrConfig);
}
void XUD_Kill(XUD_ep ep) { runtime_verb(VERB_XUD_KILL, ep, 0); }

XUD_ep XUD_InitEp(chanend c_ep) {
    uint32_t address = runtime_verb(VERB_XUD_INIT_EP, c_ep, 0);
    endpoints[number_of(c_ep)].address = (unsigned char)address;
    return c_ep;
}
void XUD_CloseEndpoint(XUD_ep one) { runtime_verb(VERB_XUD_CLOSE, one, 0); }

/* Packets. */

XUD_Result_t XUD_GetBuffer(XUD_ep ep_out, unsigned char buffer[], unsigned *length) {
    return received(runtime_verb_with(VERB_XUD_GET_BUFFER, ep_out, 0, NULL, 0, buffer, PACKET), length);
}
XUD_Result_t XUD_SetBuffer(XUD_ep ep_in, unsigned char buffer[], unsigned datalength) {
    return outcome(runtime_verb_with(VERB_XUD_SET_BUFFER, ep_in, 0, buffer, datalength, NULL, 0));
}
XUD_Result_t XUD_SetBuffer_EpMax(XUD_ep ep_in, unsigned char buffer[], unsigned datalength, unsigned epMax) {
    for (; datalength > epMax; buffer += epMax, datalength -= epMax) {
        XUD_Result_t result = XUD_SetBuffer(ep_in, buffer, epMax);
        if (result != XUD_RES_OKAY) return result;
    }
    return XUD_SetBuffer(ep_in, buffer, datalength);
}

/* Endpoint 0. */

XUD_Result_t XUD_GetSetupBuffer(XUD_ep ep_out, unsigned char buffer[], unsigned *length) {
    return received(runtime_verb_with(VERB_XUD_GET_SETUP, ep_out, 0, NULL, 0, buffer, 8), length);
}
XUD_Result_t XUD_DoSetRequestStatus(XUD_ep ep_in) { return XUD_SetBuffer(ep_in, NULL, 0); }
XUD_Result_t XUD_DoGetRequest(XUD_ep ep_out, XUD_ep ep_in, unsigned char buffer[], unsigned length, unsigned requested) {
    unsigned char rest[PACKET];
    unsigned sent = length < requested ? length : requested;
    if (!requested) return XUD_DoSetRequestStatus(ep_in); /* no data stage: its status goes to the host */
    XUD_Result_t result = XUD_SetBuffer_EpMax(ep_in, buffer, sent, CONTROL_PACKET);
    if (result == XUD_RES_OKAY && sent && sent < requested && sent % CONTROL_PACKET == 0) {
        result = XUD_SetBuffer(ep_in, NULL, 0); /* section 5.5.3: fewer data than the host asked for end so */
    }
    return result == XUD_RES_OKAY ? XUD_GetBuffer(ep_out, rest, &length) : result;
}

/* Changes of the bus. */

XUD_BusState_t XUD_GetBusState(XUD_ep one, XUD_ep *two) {
    (void)two; /* both hear of the same */
    return (XUD_BusState_t)runtime_verb(VERB_XUD_BUS_STATE, one, 0);
}
static uint32_t acknowledge(XUD_ep one, XUD_ep *two) {
    uint32_t state = runtime_verb(VERB_XUD_ACKNOWLEDGE, one, 0);
    if (two) runtime_verb(VERB_XUD_ACKNOWLEDGE, *two, 0);
    if (!(address_of(one) & 0x7F)) { /* section 9.1.1.3: the device has no configuration then */
        g_currentConfig = 0;
        memset(g_interfaceAlt, 0, sizeof g_interfaceAlt);
    }
    return state;
}
XUD_Result_t XUD_AckBusState(XUD_ep one, XUD_ep *two) {
    acknowledge(one, two);
    return XUD_RES_OKAY;
}
XUD_BusSpeed_t XUD_ResetEndpoint(XUD_ep one, XUD_ep *two) {
    return acknowledge(one, two) == XUD_BUS_KILL ? XUD_SPEED_KILL : XUD_SPEED_HS;
}

/* Halts. */

void XUD_SetStallByAddr(int epNum) { runtime_verb(VERB_XUD_STALL, (uint32_t)epNum, 1); }
void XUD_ClearStallByAddr(int epNum) { runtime_verb(VERB_XUD_STALL, (uint32_t)epNum, 0); }
void XUD_SetStall(XUD_ep ep) { XUD_SetStallByAddr((int)address_of(ep)); }
void XUD_ClearStall(XUD_ep ep) { XUD_ClearStallByAddr((int)address_of(ep)); }
void XUD_ResetEpStateByAddr(unsigned epNum) { runtime_verb(VERB_XUD_RESET_STATE, epNum, 0); }

/* Several endpoints in one core. */

static XUD_Result_t set_ready(XUD_ep ep, const void *data, size_t bytes) {
    return outcome(runtime_verb_with(VERB_XUD_SET_READY, ep, 0, data, bytes, NULL, 0));
}
int XUD_SetReady_Out(XUD_ep ep, unsigned char buffer[]) {
    endpoints[number_of(ep)].buffer = buffer;
    return set_ready(ep, NULL, 0);
}
XUD_Result_t XUD_SetReady_OutPtr(XUD_ep ep, unsigned addr) {
    return (XUD_Result_t)XUD_SetReady_Out(ep, (unsigned char *)(uintptr_t)addr);
}
XUD_Result_t XUD_SetReady_In(XUD_ep ep, unsigned char buffer[], int len) {
    return set_ready(ep, buffer, len < 0 ? 0 : (size_t)len);
}
XUD_Result_t XUD_SetReady_InPtr(XUD_ep ep, unsigned addr, int len) {
    return XUD_SetReady_In(ep, (unsigned char *)(uintptr_t)addr, len);
}
void XUD_GetData_Select(chanend c, XUD_ep ep, unsigned *length, XUD_Result_t *result) {
    (void)c;
    *result = received(runtime_verb_with(VERB_XUD_FINISH, ep, 0, NULL, 0, endpoints[number_of(ep)].buffer, PACKET), length);
}
void XUD_SetData_Select(chanend c, XUD_ep ep, XUD_Result_t *result) {
    (void)c;
    *result = outcome(runtime_verb(VERB_XUD_FINISH, ep, 0));
}
