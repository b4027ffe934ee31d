/* What the scheduler needs of signals. */
#ifndef AISRV_SIGNALS_H
#define AISRV_SIGNALS_H

/* Have faults and CPU time end in traps and reports from now on. */
void signals_catch(void);

#endif
