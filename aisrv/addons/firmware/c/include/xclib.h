/* Operations on bits for which a tile has instructions. */
#ifndef AISRV_XCLIB_H
#define AISRV_XCLIB_H

#include <xs1.h>

XC_BEGIN
/* The bits in the opposite order. */
unsigned bitrev(unsigned value);
/* The bytes in the opposite order. */
unsigned byterev(unsigned value);
/* The zeros above the highest one; 32 for 0. */
int clz(unsigned value);
XC_END

#endif
