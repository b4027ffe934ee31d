/* SETUP packets: tables 9-2 to 9-4 of the Universal Serial Bus Specification 2.0. */
#ifndef AISRV_XUD_STD_REQUESTS_H
#define AISRV_XUD_STD_REQUESTS_H

#include <xccompat.h>

#include "XUD_USB_Defines.h"

#define USB_BM_REQTYPE_DIRECTION_H2D 0
#define USB_BM_REQTYPE_DIRECTION_D2H 1
#define USB_BM_REQTYPE_TYPE_STANDARD 0
#define USB_BM_REQTYPE_TYPE_CLASS 1
#define USB_BM_REQTYPE_TYPE_VENDOR 2
#define USB_BM_REQTYPE_RECIP_DEV 0
#define USB_BM_REQTYPE_RECIP_INTER 1
#define USB_BM_REQTYPE_RECIP_EP 2
#define USB_BM_REQTYPE_RECIP_OTHER 3

/* bmRequestType as one byte. */
#define USB_BMREQ_H2D_STANDARD_DEV 0x00
#define USB_BMREQ_D2H_STANDARD_DEV 0x80
#define USB_BMREQ_H2D_STANDARD_INT 0x01
#define USB_BMREQ_D2H_STANDARD_INT 0x81
#define USB_BMREQ_H2D_STANDARD_EP 0x02
#define USB_BMREQ_D2H_STANDARD_EP 0x82
#define USB_BMREQ_H2D_CLASS_INT 0x21
#define USB_BMREQ_D2H_CLASS_INT 0xA1
#define USB_BMREQ_H2D_CLASS_EP 0x22
#define USB_BMREQ_D2H_CLASS_EP 0xA2
#define USB_BMREQ_H2D_VENDOR_DEV 0x40
#define USB_BMREQ_D2H_VENDOR_DEV 0xC0

#define USB_GET_STATUS 0
#define USB_CLEAR_FEATURE 1
#define USB_SET_FEATURE 3
#define USB_SET_ADDRESS 5
#define USB_GET_DESCRIPTOR 6
#define USB_SET_DESCRIPTOR 7
#define USB_GET_CONFIGURATION 8
#define USB_SET_CONFIGURATION 9
#define USB_GET_INTERFACE 10
#define USB_SET_INTERFACE 11
#define USB_SYNCH_FRAME 12

typedef struct USB_BmRequestType {
    unsigned char Recipient; /* bits 0 to 4 */
    unsigned char Type;      /* bits 5 and 6 */
    unsigned char Direction; /* bit 7: 1 to the host */
} USB_BmRequestType_t;

typedef struct USB_SetupPacket {
    USB_BmRequestType_t bmRequestType;
    unsigned char bRequest;
    unsigned short wValue;
    unsigned short wIndex;
    unsigned short wLength;
} USB_SetupPacket_t;

XC_BEGIN
void USB_ParseSetupPacket(unsigned char b[], REFERENCE_PARAM(USB_SetupPacket_t, p));
void USB_ComposeSetupBuffer(USB_SetupPacket_t sp, unsigned char buffer[]);
void USB_PrintSetupPacket(USB_SetupPacket_t sp);
XC_END

#endif
