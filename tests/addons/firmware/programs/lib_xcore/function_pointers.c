// Jobs that call functions by pointers, in groups by which the chip's tools measure stacks.
#include <stdio.h>
#include <xcore/parallel.h>

typedef int (*step_t)(int);
__attribute__((fptrgroup("steps"))) static int twice(int value) { return 2 * value; }
__attribute__((fptrgroup("steps"))) static int more(int value) { return value + 1; }

DECLARE_JOB(apply, (step_t, int *));
void apply(step_t step, int *value) {
    __attribute__((fptrgroup("steps"))) step_t chosen = step;
    *value = chosen(*value);
}

int main(void) {
    int values[] = {20, 20};
    PAR_JOBS(PJOB(apply, (twice, &values[0])), PJOB(apply, (more, &values[1])));
    printf("%d %d\n", values[0], values[1]);
    return 0;
}
