/* Jobs side by side: PAR_JOBS calls the first on this core, runs each other on a core of its own, and joins.
 *
 *     DECLARE_JOB(blink, (port_t, unsigned));
 *     PAR_JOBS(PJOB(listen, (c)), PJOB(blink, (p, 100)));
 */
#ifndef AISRV_XCORE_PARALLEL_H
#define AISRV_XCORE_PARALLEL_H

#include <xcore/thread.h>

typedef struct xc_job_t {
    void (*function)(void *);
    void *argument;
    const char *name;
} xc_job_t;

XC_BEGIN
/* Start jobs, and return what to join them by. */
uint32_t xc_fork(size_t count, const xc_job_t jobs[]);
void xc_join(uint32_t join);
XC_END

#define XC_PASTE(a, b) XC_PASTE_(a, b)
#define XC_PASTE_(a, b) a##b
#define XC_NAME(text) #text
#define XC_TEXT(text) XC_NAME(text)
#define XC_UNPACK(...) __VA_ARGS__
#define XC_COUNT(...) XC_COUNT_(0, ##__VA_ARGS__, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0)
#define XC_COUNT_(zero, a, b, c, d, e, f, g, h, i, j, k, l, count, ...) count

/* `void` alone is no argument, but `void *` is one. */
#define XC_VOID_PROBE_void ~, 1,
#define XC_IS_VOID(type) XC_IS_VOID_(XC_VOID_PROBE_##type, 0, ~, ~)
#define XC_IS_VOID_(...) XC_IS_VOID__(__VA_ARGS__)
#define XC_IS_VOID__(probe, found, rest, ...) XC_PASTE(XC_IS_VOID_, found)(rest)
#define XC_IS_VOID_0(rest) 0
#define XC_IS_VOID_1(...) XC_PASTE(XC_NONE_, XC_COUNT(__VA_ARGS__))
#define XC_NONE_0 1
#define XC_NONE_1 0

#define XC_FIELDS_0()
#define XC_FIELDS_1(a) XC_PASTE(XC_FIELD_, XC_IS_VOID(a))(a)
#define XC_FIELD_0(a) a m1;
#define XC_FIELD_1(a)
#define XC_VALUES_0()
#define XC_VALUES_1(a) XC_PASTE(XC_VALUE_, XC_IS_VOID(a))
#define XC_VALUE_0 xc_held->m1
#define XC_VALUE_1
#define XC_FIELDS_2(a, b) a m1; b m2;
#define XC_VALUES_2(...) xc_held->m1, xc_held->m2
#define XC_FIELDS_3(a, b, c) a m1; b m2; c m3;
#define XC_VALUES_3(...) xc_held->m1, xc_held->m2, xc_held->m3
#define XC_FIELDS_4(a, b, c, d) a m1; b m2; c m3; d m4;
#define XC_VALUES_4(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4
#define XC_FIELDS_5(a, b, c, d, e) a m1; b m2; c m3; d m4; e m5;
#define XC_VALUES_5(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5
#define XC_FIELDS_6(a, b, c, d, e, f) a m1; b m2; c m3; d m4; e m5; f m6;
#define XC_VALUES_6(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5, xc_held->m6
#define XC_FIELDS_7(a, b, c, d, e, f, g) a m1; b m2; c m3; d m4; e m5; f m6; g m7;
#define XC_VALUES_7(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5, xc_held->m6, xc_held->m7
#define XC_FIELDS_8(a, b, c, d, e, f, g, h) a m1; b m2; c m3; d m4; e m5; f m6; g m7; h m8;
#define XC_VALUES_8(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5, xc_held->m6, xc_held->m7, xc_held->m8
#define XC_FIELDS_9(a, b, c, d, e, f, g, h, i) a m1; b m2; c m3; d m4; e m5; f m6; g m7; h m8; i m9;
#define XC_VALUES_9(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5, xc_held->m6, xc_held->m7, xc_held->m8, xc_held->m9
#define XC_FIELDS_10(a, b, c, d, e, f, g, h, i, j) a m1; b m2; c m3; d m4; e m5; f m6; g m7; h m8; i m9; j m10;
#define XC_VALUES_10(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5, xc_held->m6, xc_held->m7, xc_held->m8, xc_held->m9, xc_held->m10
#define XC_FIELDS_11(a, b, c, d, e, f, g, h, i, j, k) a m1; b m2; c m3; d m4; e m5; f m6; g m7; h m8; i m9; j m10; k m11;
#define XC_VALUES_11(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5, xc_held->m6, xc_held->m7, xc_held->m8, xc_held->m9, xc_held->m10, xc_held->m11
#define XC_FIELDS_12(a, b, c, d, e, f, g, h, i, j, k, l) a m1; b m2; c m3; d m4; e m5; f m6; g m7; h m8; i m9; j m10; k m11; l m12;
#define XC_VALUES_12(...) xc_held->m1, xc_held->m2, xc_held->m3, xc_held->m4, xc_held->m5, xc_held->m6, xc_held->m7, xc_held->m8, xc_held->m9, xc_held->m10, xc_held->m11, xc_held->m12

#define XC_FIELDS(...) XC_PASTE(XC_FIELDS_, XC_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define XC_VALUES(...) XC_PASTE(XC_VALUES_, XC_COUNT(__VA_ARGS__))(__VA_ARGS__)

#define DECLARE_JOB(function, types) XC_DECLARE_JOB(function, types)
#define XC_DECLARE_JOB(function, types)                                        \
    void function types;                                                       \
    struct xc_job_##function {                                                 \
        XC_FIELDS types                                                        \
    };                                                                         \
    __attribute__((unused)) static void xc_run_##function(void *xc_argument) {    \
        struct xc_job_##function *xc_held = (struct xc_job_##function *)xc_argument;  \
        (void)xc_held;                                                             \
        function(XC_VALUES types);                                             \
    }

#define PJOB(function, arguments) (function, arguments)
#define PFUNC(function, argument) (function, argument)

#define XC_CALL(function, arguments) function arguments;
#define XC_HOLD(number, pair) XC_HOLD_(number, XC_UNPACK pair)
#define XC_HOLD_(...) XC_HOLD__(__VA_ARGS__)
#define XC_HOLD__(number, function, arguments) struct xc_job_##function xc_job_##number = {XC_UNPACK arguments};
#define XC_JOB(number, pair) XC_JOB_(number, XC_UNPACK pair)
#define XC_JOB_(...) XC_JOB__(__VA_ARGS__)
#define XC_JOB__(number, function, arguments) {xc_run_##function, &xc_job_##number, #function},

#define XC_CALL_FUNCTION(function, argument) function(argument);
#define XC_FUNCTION(pair) XC_FUNCTION_(XC_UNPACK pair)
#define XC_FUNCTION_(...) XC_FUNCTION__(__VA_ARGS__)
#define XC_FUNCTION__(function, argument) {(void (*)(void *))(function), (void *)(argument), #function},

#define XC_PAR(count, call, hold, ...)                     \
    do {                                                   \
        hold;                                              \
        const xc_job_t xc_jobs[] = {__VA_ARGS__};          \
        const uint32_t xc_joined = xc_fork(count, xc_jobs); \
        call;                                              \
        xc_join(xc_joined);                                \
    } while (0)

#define XC_PAR_JOBS_1(a) do { XC_CALL a } while (0)
#define XC_PAR_FUNCS_1(a) do { XC_CALL_FUNCTION a } while (0)
#define XC_PAR_JOBS_2(a, b) \
    XC_PAR(1, XC_CALL a, XC_HOLD(1, b), \
           XC_JOB(1, b))
#define XC_PAR_FUNCS_2(a, b) \
    XC_PAR(1, XC_CALL_FUNCTION a, , XC_FUNCTION(b))
#define XC_PAR_JOBS_3(a, b, c) \
    XC_PAR(2, XC_CALL a, XC_HOLD(1, b) XC_HOLD(2, c), \
           XC_JOB(1, b) XC_JOB(2, c))
#define XC_PAR_FUNCS_3(a, b, c) \
    XC_PAR(2, XC_CALL_FUNCTION a, , XC_FUNCTION(b) XC_FUNCTION(c))
#define XC_PAR_JOBS_4(a, b, c, d) \
    XC_PAR(3, XC_CALL a, XC_HOLD(1, b) XC_HOLD(2, c) XC_HOLD(3, d), \
           XC_JOB(1, b) XC_JOB(2, c) XC_JOB(3, d))
#define XC_PAR_FUNCS_4(a, b, c, d) \
    XC_PAR(3, XC_CALL_FUNCTION a, , XC_FUNCTION(b) XC_FUNCTION(c) XC_FUNCTION(d))
#define XC_PAR_JOBS_5(a, b, c, d, e) \
    XC_PAR(4, XC_CALL a, XC_HOLD(1, b) XC_HOLD(2, c) XC_HOLD(3, d) XC_HOLD(4, e), \
           XC_JOB(1, b) XC_JOB(2, c) XC_JOB(3, d) XC_JOB(4, e))
#define XC_PAR_FUNCS_5(a, b, c, d, e) \
    XC_PAR(4, XC_CALL_FUNCTION a, , XC_FUNCTION(b) XC_FUNCTION(c) XC_FUNCTION(d) XC_FUNCTION(e))
#define XC_PAR_JOBS_6(a, b, c, d, e, f) \
    XC_PAR(5, XC_CALL a, XC_HOLD(1, b) XC_HOLD(2, c) XC_HOLD(3, d) XC_HOLD(4, e) XC_HOLD(5, f), \
           XC_JOB(1, b) XC_JOB(2, c) XC_JOB(3, d) XC_JOB(4, e) XC_JOB(5, f))
#define XC_PAR_FUNCS_6(a, b, c, d, e, f) \
    XC_PAR(5, XC_CALL_FUNCTION a, , XC_FUNCTION(b) XC_FUNCTION(c) XC_FUNCTION(d) XC_FUNCTION(e) XC_FUNCTION(f))
#define XC_PAR_JOBS_7(a, b, c, d, e, f, g) \
    XC_PAR(6, XC_CALL a, XC_HOLD(1, b) XC_HOLD(2, c) XC_HOLD(3, d) XC_HOLD(4, e) XC_HOLD(5, f) XC_HOLD(6, g), \
           XC_JOB(1, b) XC_JOB(2, c) XC_JOB(3, d) XC_JOB(4, e) XC_JOB(5, f) XC_JOB(6, g))
#define XC_PAR_FUNCS_7(a, b, c, d, e, f, g) \
    XC_PAR(6, XC_CALL_FUNCTION a, , XC_FUNCTION(b) XC_FUNCTION(c) XC_FUNCTION(d) XC_FUNCTION(e) XC_FUNCTION(f) XC_FUNCTION(g))
#define XC_PAR_JOBS_8(a, b, c, d, e, f, g, h) \
    XC_PAR(7, XC_CALL a, XC_HOLD(1, b) XC_HOLD(2, c) XC_HOLD(3, d) XC_HOLD(4, e) XC_HOLD(5, f) XC_HOLD(6, g) XC_HOLD(7, h), \
           XC_JOB(1, b) XC_JOB(2, c) XC_JOB(3, d) XC_JOB(4, e) XC_JOB(5, f) XC_JOB(6, g) XC_JOB(7, h))
#define XC_PAR_FUNCS_8(a, b, c, d, e, f, g, h) \
    XC_PAR(7, XC_CALL_FUNCTION a, , XC_FUNCTION(b) XC_FUNCTION(c) XC_FUNCTION(d) XC_FUNCTION(e) XC_FUNCTION(f) XC_FUNCTION(g) XC_FUNCTION(h))

#define PAR_JOBS(...) XC_PASTE(XC_PAR_JOBS_, XC_COUNT(__VA_ARGS__))(__VA_ARGS__)
#define PAR_FUNCS(...) XC_PASTE(XC_PAR_FUNCS_, XC_COUNT(__VA_ARGS__))(__VA_ARGS__)

#endif
