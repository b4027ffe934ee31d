/* Locks between the cores of a tile. */
#ifndef AISRV_XCORE_LOCK_H
#define AISRV_XCORE_LOCK_H

#include <xs1.h>

typedef resource_t lock_t;

XC_BEGIN
lock_t lock_alloc(void);
void lock_free(lock_t l);
void lock_acquire(lock_t l);
void lock_release(lock_t l);
XC_END

#endif
