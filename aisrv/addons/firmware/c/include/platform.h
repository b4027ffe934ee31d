/* The platform: its reference clock. Tiles are those of `aisrv firmware run`, or of the board. */
#ifndef AISRV_PLATFORM_H
#define AISRV_PLATFORM_H

#include <xs1.h>

#define PLATFORM_REFERENCE_HZ 100000000
#define PLATFORM_REFERENCE_KHZ 100000
#define PLATFORM_REFERENCE_MHZ 100

#endif
