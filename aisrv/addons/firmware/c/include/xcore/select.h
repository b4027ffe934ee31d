/* Select: wait for the first of several events.
 *
 *     SELECT_RES(CASE_THEN(c, on_word), CASE_GUARD_THEN(t, armed, on_time)) {
 *     on_word: ...; continue; // wait again
 *     on_time: ...; break;    // leave the select
 *     }
 *
 * Guards are evaluated at each wait. In C++, clang wants a select within another one in a function of its own where
 * variables begin between them. */
#ifndef AISRV_XCORE_SELECT_H
#define AISRV_XCORE_SELECT_H

#include <xs1.h>

XC_BEGIN
void xc_select_begin(int ordered);
void xc_select_case(resource_t resource, void *label);
void xc_select_default(void *label);
void *xc_select_wait(void);
XC_END

#define XC_SELECT(ordered, ...) for (; ({ xc_select_begin(ordered), __VA_ARGS__; goto *xc_select_wait(); 1; });)

#define SELECT_RES(...) XC_SELECT(0, __VA_ARGS__)
#define SELECT_RES_ORDERED(...) XC_SELECT(1, __VA_ARGS__)
#define SELECT_CONTINUE_RESET continue
#define SELECT_CONTINUE_NO_RESET continue

#define CASE_THEN(resource, label) xc_select_case(resource, &&label)
#define CASE_GUARD_THEN(resource, guard, label) ((guard) ? xc_select_case(resource, &&label) : (void)0)
#define CASE_NGUARD_THEN(resource, guard, label) ((guard) ? (void)0 : xc_select_case(resource, &&label))
#define DEFAULT_THEN(label) xc_select_default(&&label)
#define DEFAULT_GUARD_THEN(guard, label) ((guard) ? xc_select_default(&&label) : (void)0)
#define DEFAULT_NGUARD_THEN(guard, label) ((guard) ? (void)0 : xc_select_default(&&label))

#endif
