// Jobs side by side, one without arguments, and jobs within a job.
#include <stdio.h>
#include <xcore/parallel.h>

static unsigned places[5];

DECLARE_JOB(first, (void));
DECLARE_JOB(leaf, (unsigned, unsigned));
DECLARE_JOB(branch, (unsigned));

void first(void) { places[0] = 1; }
void leaf(unsigned place, unsigned value) { places[place] = value; }
void branch(unsigned place) { PAR_JOBS(PJOB(leaf, (place, 10 * place)), PJOB(leaf, (place + 1, 10 * place + 1))); }

int main(void) {
    PAR_JOBS(PJOB(first, ()), PJOB(branch, (1)), PJOB(branch, (3)));
    for (int i = 0; i < 5; i++) printf("%u ", places[i]);
    puts("");
    return 0;
}
