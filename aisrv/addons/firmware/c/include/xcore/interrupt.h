/* Masks of interrupts. They are masked as a core begins, and in callbacks. */
#ifndef AISRV_XCORE_INTERRUPT_H
#define AISRV_XCORE_INTERRUPT_H

#include <xs1.h>

XC_BEGIN
void interrupt_mask_all(void);
/* Callbacks that are due run before it returns. In a callback it lasts until that returns, and an interrupt that comes in
 * that time is a trap: lib_xcore's wrappers of callbacks cannot be interrupted. */
void interrupt_unmask_all(void);
XC_END

#endif
