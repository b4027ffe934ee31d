/* Interrupts: not there yet. */
#ifndef AISRV_XCORE_INTERRUPT_H
#define AISRV_XCORE_INTERRUPT_H

#include <xs1.h>

XC_MISSING(interrupt_mask_all, "interrupts are not there yet; wait in SELECT_RES")
XC_MISSING(interrupt_unmask_all, "interrupts are not there yet; wait in SELECT_RES")

#endif
