/* Control transfers of a device on xud.h: SETUP packets, and answers to the standard requests. */
#ifndef AISRV_XUD_DEVICE_H
#define AISRV_XUD_DEVICE_H

#include <xccompat.h>

#include "XUD_USB_Defines.h"
#include "xud.h"
#include "xud_std_descriptors.h"
#include "xud_std_requests.h"

XC_BEGIN
/* Wait for a SETUP packet and take it apart. */
XUD_Result_t USB_GetSetupPacket(XUD_ep ep_out, XUD_ep ep_in, REFERENCE_PARAM(USB_SetupPacket_t, sp));

/* Answer a standard request by these descriptors (section 9.4): those of full speed may have a length of 0, which the
 * others then stand for. Strings are ASCII; number 0 holds the languages, as bytes. XUD_RES_ERR for a request that it
 * does not know: that one has been answered with STALL. */
XUD_Result_t USB_StandardRequests(XUD_ep ep_out, XUD_ep ep_in, NULLABLE_ARRAY_OF(unsigned char, devDesc_hs),
                                  int devDescLength_hs, NULLABLE_ARRAY_OF(unsigned char, cfgDesc_hs),
                                  int cfgDescLength_hs, NULLABLE_ARRAY_OF(unsigned char, devDesc_fs),
                                  int devDescLength_fs, NULLABLE_ARRAY_OF(unsigned char, cfgDesc_fs),
                                  int cfgDescLength_fs, char *strDescs[], int strDescsLength,
                                  REFERENCE_PARAM(USB_SetupPacket_t, sp), XUD_BusSpeed_t usbBusSpeed);

/* What USB_StandardRequests has answered: the configuration, 0 for none, and the setting of each interface. */
extern unsigned char g_currentConfig;
extern unsigned char g_interfaceAlt[16];
XC_END

#endif
