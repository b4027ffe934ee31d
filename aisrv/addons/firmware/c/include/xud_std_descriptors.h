/* Descriptors: section 9.6 of the Universal Serial Bus Specification 2.0. */
#ifndef AISRV_XUD_STD_DESCRIPTORS_H
#define AISRV_XUD_STD_DESCRIPTORS_H

typedef enum {
    USB_CLASS_USE_CLASS = 0x00,
    USB_CLASS_AUDIO = 0x01,
    USB_CLASS_COMMUNICATIONS = 0x02,
    USB_CLASS_HID = 0x03,
    USB_CLASS_PHYSICAL = 0x05,
    USB_CLASS_IMAGE = 0x06,
    USB_CLASS_PRINTER = 0x07,
    USB_CLASS_MASS_STORAGE = 0x08,
    USB_CLASS_HUB = 0x09,
    USB_CLASS_CDC_DATA = 0x0A,
    USB_CLASS_SMART_CARD = 0x0B,
    USB_CLASS_CONTENT_SECURITY = 0x0D,
    USB_CLASS_VIDEO = 0x0E,
    USB_CLASS_PERSONAL_HEALTHCARE = 0x0F,
    USB_CLASS_AUDIO_VIDEO = 0x10,
    USB_CLASS_VENDOR_SPECIFIC = 0xFF
} USB_ClassCode_t;

enum USB_DescriptorTypes_t {
    USB_DESCTYPE_DEVICE = 1,
    USB_DESCTYPE_CONFIGURATION = 2,
    USB_DESCTYPE_STRING = 3,
    USB_DESCTYPE_INTERFACE = 4,
    USB_DESCTYPE_ENDPOINT = 5,
    USB_DESCTYPE_DEVICE_QUALIFIER = 6,
    USB_DESCTYPE_OTHER_SPEED = 7,
    USB_DESCTYPE_INTERFACE_POWER = 8,
    USB_DESCTYPE_OTG = 9,
    USB_DESCTYPE_DEBUG = 10,
    USB_DESCTYPE_INTERFACE_ASSOCIATION = 11
};

/* bmAttributes of an endpoint. */
enum USB_Endpoint_TransType_t {
    USB_ENDPOINT_TRANSTYPE_CTRL = 0,
    USB_ENDPOINT_TRANSTYPE_ISO = 1,
    USB_ENDPOINT_TRANSTYPE_BULK = 2,
    USB_ENDPOINT_TRANSTYPE_INT = 3
};
enum USB_Endpoint_SyncType_t {
    USB_ENDPOINT_SYNCTYPE_NONE = 0,
    USB_ENDPOINT_SYNCTYPE_ASYNC = 1,
    USB_ENDPOINT_SYNCTYPE_ADAPT = 2,
    USB_ENDPOINT_SYNCTYPE_SYNC = 3
};
enum USB_Endpoint_UsageType_t {
    USB_ENDPOINT_USAGETYPE_DATA = 0,
    USB_ENDPOINT_USAGETYPE_FEEDBACK = 1,
    USB_ENDPOINT_USAGETYPE_IMPLICIT = 2
};
#define USB_ENDPOINT_TRANSTYPE_SHIFT 0
#define USB_ENDPOINT_SYNCTYPE_SHIFT 2
#define USB_ENDPOINT_USAGETYPE_SHIFT 4

#define XUD_PACKED __attribute__((packed))

typedef struct {
    unsigned char bLength, bDescriptorType;
} XUD_PACKED USB_Descriptor_Header_t;

typedef struct {
    unsigned char bLength, bDescriptorType;
    unsigned short bcdUSB;
    unsigned char bDeviceClass, bDeviceSubClass, bDeviceProtocol, bMaxPacketSize0;
    unsigned short idVendor, idProduct, bcdDevice;
    unsigned char iManufacturer, iProduct, iSerialNumber, bNumConfigurations;
} XUD_PACKED USB_Descriptor_Device_t;

typedef struct {
    unsigned char bLength, bDescriptorType;
    unsigned short wTotalLength;
    unsigned char bNumInterfaces, bConfigurationValue, iConfiguration, bmAttributes, bMaxPower;
} XUD_PACKED USB_Descriptor_Configuration_Header_t;

typedef struct {
    unsigned char bLength, bDescriptorType, bFirstInterface, bInterfaceCount;
    unsigned char bFunctionClass, bFunctionSubClass, bFunctionProtocol, iFunction;
} XUD_PACKED USB_Descriptor_Interface_Association_t;

typedef struct {
    unsigned char bLength, bDescriptorType, bInterfaceNumber, bAlternateSetting, bNumEndpoints;
    unsigned char bInterfaceClass, bInterfaceSubClass, bInterfaceProtocol, iInterface;
} XUD_PACKED USB_Descriptor_Interface_t;

typedef struct {
    unsigned char bLength, bDescriptorType, bEndpointAddress, bmAttributes;
    unsigned short wMaxPacketSize;
    unsigned char bInterval;
} XUD_PACKED USB_Descriptor_Endpoint_t;

#ifndef __cplusplus
typedef struct {
    unsigned char bLength, bDescriptorType;
    unsigned short bString[];
} XUD_PACKED USB_Descriptor_String_t;
#endif

#endif
