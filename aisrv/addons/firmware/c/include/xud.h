/* The USB device library of the chip: a core that is on the bus, and the endpoints that other cores serve.
 *
 *     XUD_Main(c_ep_out, 2, c_ep_in, 2, 0, out_types, in_types, XUD_SPEED_HS, XUD_PWR_BUS);   // a core of its own
 *     XUD_ep out = XUD_InitEp(other_end_of_c_ep_out_1);                                       // the one that serves it
 *     while (XUD_GetBuffer(out, packet, &length) == XUD_RES_OKAY) ...
 *
 * For the task that a board's `[usb] task` names. The bus is at high speed; it has no suspend, no start-of-frame tokens,
 * no test modes and no isochronous endpoints. An endpoint with XUD_STATUS_ENABLE gets XUD_RES_RST after a reset of the
 * bus, until XUD_ResetEndpoint; any other waits on. */
#ifndef AISRV_XUD_H
#define AISRV_XUD_H

#include <platform.h>
#include <print.h>
#include <xccompat.h>
#include <xs1.h>

typedef enum XUD_EpTransferType {
    XUD_EPTYPE_ISO = 0, /* not there */
    XUD_EPTYPE_INT = 1,
    XUD_EPTYPE_BUL = 2,
    XUD_EPTYPE_CTL = 3,
    XUD_EPTYPE_DIS = 4 /* no endpoint */
} XUD_EpTransferType;

/* A transfer type, with XUD_STATUS_ENABLE where the endpoint wants to hear of resets. */
typedef unsigned int XUD_EpType;
#define XUD_STATUS_ENABLE 0x80000000

typedef unsigned int XUD_ep;

#define XUD_SPEED_FS_VAL 1
#define XUD_SPEED_HS_VAL 2
typedef enum XUD_BusSpeed {
    XUD_SPEED_FS = XUD_SPEED_FS_VAL,
    XUD_SPEED_HS = XUD_SPEED_HS_VAL,
    XUD_SPEED_KILL = 3 /* of XUD_ResetEndpoint after XUD_Kill */
} XUD_BusSpeed_t;

#define XUD_PWR_BUS_VAL 0
#define XUD_PWR_SELF_VAL 1
typedef enum XUD_PwrConfig { XUD_PWR_BUS = XUD_PWR_BUS_VAL, XUD_PWR_SELF = XUD_PWR_SELF_VAL } XUD_PwrConfig;

typedef enum XUD_Result {
    XUD_RES_RST = -1, /* the bus was reset, or XUD killed */
    XUD_RES_UPDATE = -1,
    XUD_RES_OKAY = 0,
    XUD_RES_ERR = 2 /* at endpoint 0: the host has begun another transfer */
} XUD_Result_t;

typedef enum XUD_BusState_t {
    XUD_BUS_SUSPEND = 8, /* never comes */
    XUD_BUS_RESUME = 9,  /* never comes */
    XUD_BUS_RESET = 10,
    XUD_BUS_KILL = 11
} XUD_BusState_t;

#define USB_RESET_TOKEN 8

XC_BEGIN
/* Be the core that is on the bus, until XUD_Kill. Endpoint i is that of c_epOut[i] and c_epIn[i], 1 to 16 of each, the
 * first of which are endpoint 0. `c_sof` is 0. */
int XUD_Main(chanend c_epOut[], int noEpOut, chanend c_epIn[], int noEpIn, NULLABLE_RESOURCE(chanend, c_sof),
             XUD_EpType epTypeTableOut[], XUD_EpType epTypeTableIn[], XUD_BusSpeed_t desiredSpeed,
             XUD_PwrConfig pwrConfig);
/* The same under its old name; the port, the clock block and the mask are not used. */
int XUD_Manager(chanend c_epOut[], int noEpOut, chanend c_epIn[], int noEpIn, NULLABLE_RESOURCE(chanend, c_sof),
                XUD_EpType epTypeTableOut[], XUD_EpType epTypeTableIn[], NULLABLE_RESOURCE(resource_t, p_usb_rst),
                NULLABLE_RESOURCE(resource_t, clk), unsigned rstMask, XUD_BusSpeed_t desiredSpeed,
                XUD_PwrConfig pwrConfig);
/* End XUD_Main and leave the bus: each endpoint gets XUD_RES_RST, and XUD_SPEED_KILL or XUD_BUS_KILL after that. */
void XUD_Kill(XUD_ep ep);

/* The endpoint at the other side of a channel of XUD_Main's, for which this waits. */
XUD_ep XUD_InitEp(chanend c_ep);
/* Give an endpoint up, after XUD_Kill: the channel end is a plain one again. */
void XUD_CloseEndpoint(XUD_ep one);

/* One packet from the host, or to it; each waits until the host has it. An empty packet counts. */
XUD_Result_t XUD_GetBuffer(XUD_ep ep_out, unsigned char buffer[], REFERENCE_PARAM(unsigned, length));
XUD_Result_t XUD_SetBuffer(XUD_ep ep_in, unsigned char buffer[], unsigned datalength);
/* As many packets of up to `epMax` bytes as it takes. */
XUD_Result_t XUD_SetBuffer_EpMax(XUD_ep ep_in, unsigned char buffer[], unsigned datalength, unsigned epMax);

/* Endpoint 0: the 8 bytes that begin a transfer; its IN data and the status that follows them; the status alone. */
XUD_Result_t XUD_GetSetupBuffer(XUD_ep ep_out, unsigned char buffer[], REFERENCE_PARAM(unsigned, length));
XUD_Result_t XUD_DoGetRequest(XUD_ep ep_out, XUD_ep ep_in, unsigned char buffer[], unsigned length, unsigned requested);
XUD_Result_t XUD_DoSetRequestStatus(XUD_ep ep_in);

/* After XUD_RES_RST: what it was, and taking note of it. The second endpoint may be NULL. */
XUD_BusState_t XUD_GetBusState(XUD_ep one, NULLABLE_REFERENCE_PARAM(XUD_ep, two));
XUD_Result_t XUD_AckBusState(XUD_ep one, NULLABLE_REFERENCE_PARAM(XUD_ep, two));
XUD_BusSpeed_t XUD_ResetEndpoint(XUD_ep one, NULLABLE_REFERENCE_PARAM(XUD_ep, two));

/* Halts. An address has bit 7 set for IN. The halt of endpoint 0 ends with the next SETUP. */
void XUD_SetStall(XUD_ep ep);
void XUD_ClearStall(XUD_ep ep);
void XUD_SetStallByAddr(int epNum);
void XUD_ClearStallByAddr(int epNum);
/* An endpoint as it is after SET_CONFIGURATION: not halted. */
void XUD_ResetEpStateByAddr(unsigned epNum);

/* Several endpoints in one core: make them ready, wait in a select for the channel ends that XUD_InitEp was given, and
 * take the outcome. A packet to the host is copied as it is made ready. */
XUD_Result_t XUD_SetReady_OutPtr(XUD_ep ep, unsigned addr);
int XUD_SetReady_Out(XUD_ep ep, unsigned char buffer[]);
XUD_Result_t XUD_SetReady_InPtr(XUD_ep ep, unsigned addr, int len);
XUD_Result_t XUD_SetReady_In(XUD_ep ep, unsigned char buffer[], int len);
void XUD_GetData_Select(chanend c, XUD_ep ep, REFERENCE_PARAM(unsigned, length), REFERENCE_PARAM(XUD_Result_t, result));
void XUD_SetData_Select(chanend c, XUD_ep ep, REFERENCE_PARAM(XUD_Result_t, result));
XC_END

XC_MISSING(XUD_SetTestMode, "the bus has no electrical test modes; USB_StandardRequests refuses them")

#endif
