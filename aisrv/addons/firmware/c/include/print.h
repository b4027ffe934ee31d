/* Output without formats. A function that ends in ln goes on in a new line. */
#ifndef AISRV_PRINT_H
#define AISRV_PRINT_H

#include <xs1.h>

XC_BEGIN
int printchar(char value);
int printcharln(char value);
int printint(int value);
int printintln(int value);
int printuint(unsigned value);
int printuintln(unsigned value);
int printhex(unsigned value);
int printhexln(unsigned value);
int printllong(long long value);
int printllongln(long long value);
int printstr(const char *text);
int printstrln(const char *text);
XC_END

#endif
