/* The team of threads alone, for ThreadSanitizer: callers at once, whose steps read what other pieces of the step
   before wrote; helpers start, sleep and end meanwhile. Prints how many numbers were wrong. */

#include "kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define EXPORT
#define INLINE static inline

struct share {
    int64_t piece;
    int64_t pieces;
};

typedef void (*run_function)(const void *, const struct share *);

INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

enum { COUNT = 256, PIECES = 16, STEPS = 8, CALLERS = 3, ROUNDS = 90, ROUNDS_JOINED = 30, THREADS = 4, ASLEEP_US = 200 };

struct numbers {
    uint64_t before[COUNT];
    uint64_t after[COUNT];
};

static void copy(const void *arguments, const struct share *share) {
    struct numbers *numbers = (struct numbers *)arguments;
    for (int64_t i = COUNT * share->piece / share->pieces; i < COUNT * (share->piece + 1) / share->pieces; i++)
        numbers->before[i] = numbers->after[i];
}

static void mix(const void *arguments, const struct share *share) {
    struct numbers *numbers = (struct numbers *)arguments;
    for (int64_t i = COUNT * share->piece / share->pieces; i < COUNT * (share->piece + 1) / share->pieces; i++)
        numbers->after[i] = numbers->before[(i + 1) % COUNT] * 3 + numbers->before[(i + COUNT / 2) % COUNT];
}

static const run_function RUN[1][1][2] = {{{copy, mix}}};

static void aisrv_run(const struct step *steps, int64_t count) {
    const struct share whole = {0, 1};
    for (int64_t i = 0; i < count; i++)
        for (int phase = 0; phase < 2; phase++) RUN[0][0][phase](steps[i].arguments, &whole);
}

#include "team.h"

static void *call(void *argument) {
    intptr_t wrong = 0;
    for (int round = 0; round < ROUNDS; round++) {
        if (round % ROUNDS_JOINED == 0 && !aisrv_team_join(THREADS - 1)) exit(2);
        struct numbers shared, alone;
        for (int i = 0; i < COUNT; i++) shared.after[i] = (uint64_t)(intptr_t)argument + (uint64_t)(i * round);
        alone = shared;
        struct step together[STEPS], one_by_one[STEPS];
        for (int i = 0; i < STEPS; i++) {
            const struct step step = {0, 0, &shared, i % 4 ? PIECES : 1}, same = {0, 0, &alone, 1};
            together[i] = step, one_by_one[i] = same;
        }
        aisrv_team_run(THREADS, together, STEPS);
        aisrv_run(one_by_one, STEPS);
        for (int i = 0; i < COUNT; i++) wrong += shared.after[i] != alone.after[i];
        if (round % 8 == 0) usleep(ASLEEP_US);
        if (round % ROUNDS_JOINED == ROUNDS_JOINED - 1) aisrv_team_leave();
    }
    return (void *)wrong;
}

int main(void) {
    pthread_t callers[CALLERS];
    intptr_t wrong = 0;
    for (intptr_t i = 0; i < CALLERS; i++)
        if (pthread_create(&callers[i], NULL, call, (void *)i)) return 2;
    for (int i = 0; i < CALLERS; i++) {
        void *result;
        pthread_join(callers[i], &result);
        wrong += (intptr_t)result;
    }
    printf("%lld\n", (long long)wrong);
    return 0;
}
