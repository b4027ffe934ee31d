/* Assertions: a trap with file and line, as the chip's `ecallf` and `ecallt`. Empty with NDEBUG. */
#ifndef AISRV_XCORE_ASSERT_H
#define AISRV_XCORE_ASSERT_H

#include <assert.h>
#include <xs1.h>

#define LIBXCORE_HAS_TIMING_ASSERTIONS

XC_BEGIN
void xc_failed(const char *assertion, const char *file, int line) __attribute__((noreturn));
XC_END

#ifdef NDEBUG
#define xassert(condition) ((void)0)
#define xassert_not(condition) ((void)0)
#define xassert_not_after(time) ((void)0)
#else
#define xassert(condition) ((condition) ? (void)0 : xc_failed("xassert(" #condition ")", __FILE__, __LINE__))
#define xassert_not(condition) ((condition) ? xc_failed("xassert_not(" #condition ")", __FILE__, __LINE__) : (void)0)
#define xassert_not_after(time)                                                                                    \
    ((int32_t)(get_reference_time() - (time)) <= 0 ? (void)0                                                       \
                                                   : xc_failed("xassert_not_after(" #time ")", __FILE__, __LINE__))
#endif

#endif
