/* Types of libquadflash, for firmware that names them. The flash is that of the board: see its settings. */
#ifndef AISRV_QUADFLASH_H
#define AISRV_QUADFLASH_H

#include <xs1.h>

typedef struct fl_QSPIPorts fl_QSPIPorts;
typedef struct fl_QuadDeviceSpec fl_QuadDeviceSpec;

XC_MISSING(fl_connect, "a task in Python reads the board's flash")
XC_MISSING(fl_connectToDevice, "a task in Python reads the board's flash")
XC_MISSING(fl_disconnect, "a task in Python reads the board's flash")
XC_MISSING(fl_readData, "a task in Python reads the board's flash")
XC_MISSING(fl_readPage, "a task in Python reads the board's flash")
XC_MISSING(fl_writeData, "a task in Python reads the board's flash")

#endif
