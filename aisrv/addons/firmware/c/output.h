/* What the scheduler needs of the output of cores. */
#ifndef AISRV_OUTPUT_H
#define AISRV_OUTPUT_H

#include "coroutines.h"

/* Have each line begin with its tile and core from now on. */
void output_begin_lines(void);
/* Print what a core has printed of a line. */
void output_end_line(slot_t *slot);

#endif
