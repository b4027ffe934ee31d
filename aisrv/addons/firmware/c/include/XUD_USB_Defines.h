/* Numbers of the Universal Serial Bus Specification 2.0: packets (table 8-1), features (table 9-6), requests. */
#ifndef AISRV_XUD_USB_DEFINES_H
#define AISRV_XUD_USB_DEFINES_H

#define USB_PID_OUT 0x1
#define USB_PID_IN 0x9
#define USB_PID_SOF 0x5
#define USB_PID_SETUP 0xD
#define USB_PID_DATA0 0x3
#define USB_PID_DATA1 0xB
#define USB_PID_DATA2 0x7
#define USB_PID_MDATA 0xF
#define USB_PID_ACK 0x2
#define USB_PID_NAK 0xA
#define USB_PID_STALL 0xE
#define USB_PID_PRE 0xC
#define USB_PID_ERR 0xC
#define USB_PID_SPLIT 0x8
#define USB_PID_PING 0x4

#define USB_ENDPOINT_HALT 0
#define USB_DEVICE_REMOTE_WAKEUP 1
#define USB_TEST_MODE 2
#define USB_WVAL_EP_HALT USB_ENDPOINT_HALT

#define USB_STANDARD_DEVICE_REQUEST 0x00
#define USB_STANDARD_INTERFACE_REQUEST 0x01
#define USB_STANDARD_ENDPOINT_REQUEST 0x02
#define USB_CLASS_INTERFACE_REQUEST 0x21
#define USB_CLASS_ENDPOINT_REQUEST 0x22
#define USB_VENDOR_DEVICE_REQUEST 0x40
#define USB_VENDOR_ENDPOINT_REQUEST 0x42

/* Endpoints of each direction, and of both. */
#define USB_MAX_NUM_EP_OUT 16
#define USB_MAX_NUM_EP_IN 16
#define USB_MAX_NUM_EP 32

#endif
