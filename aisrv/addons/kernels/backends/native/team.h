/* The team: threads that help whoever runs steps. There is one for a process, and it helps one caller at a time; a
   caller that finds it busy computes alone.

   Steps are cut into pieces. A ticket has the number of a phase, how many pieces it has, and the next to take: 32, 16 and
   16 bits. Who raises it has taken that piece, and the phase lasts until the piece is done. The caller waits for pieces
   that were taken, never for a thread to come: on a busy machine it computes all of them itself.

   Helpers look for pieces for a while after their last one, then they sleep. To wake them takes longer than some networks
   do, so that they are woken only for what is worth it. A helper that lost its core to another process keeps its piece;
   after such a wait the callers compute alone for many times as long, which bounds what these waits cost. */

#include <pthread.h>
#include <sched.h>
#include <time.h>
#ifndef _WIN32
#include <signal.h>
#endif

enum { MOST_HELPERS = 63 };
enum { SPINS = 256, LOOKS_PER_CLOCK = 32, AWAKE_NS = 50000 };
enum { LOST_NS = 200000, RESTS_PER_WAIT = 32 };
enum { COPIES_PER_THREAD = 4, WORTH_WAKING = 64 }; /* pieces */

static struct {
    uint64_t ticket;
    int64_t done; /* pieces of the present phase */
    int64_t wanted; /* helpers: those with the lowest numbers */
    int64_t rest;   /* until then callers compute alone; 0 for no rest */
    run_function run;
    const void *arguments;
    int32_t busy; /* whether it helps somebody */
    int32_t stop;
    int64_t started;
    uint64_t asleep;      /* helpers, a bit each: who wakes one clears it */
    pthread_mutex_t lock; /* of `asleep` and `stop`; who reads them without it is late at worst */
    pthread_cond_t woken;
    pthread_mutex_t members; /* who starts and ends helpers */
    int64_t users;
    pthread_t helpers[MOST_HELPERS];
} team = {.lock = PTHREAD_MUTEX_INITIALIZER, .woken = PTHREAD_COND_INITIALIZER, .members = PTHREAD_MUTEX_INITIALIZER};

static int64_t nanoseconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Whoever waits for long lets others have its core: the one it waits for may be among them. */
static void pause_thread(int64_t spins) {
    if (spins >= SPINS) {
        sched_yield();
        return;
    }
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Take a piece and compute it; 0 where there is none to take. */
static int help(int64_t number) {
    uint64_t ticket = __atomic_load_n(&team.ticket, __ATOMIC_ACQUIRE);
    const struct share share = {ticket & 0xFFFF, ticket >> 16 & 0xFFFF};
    if (share.piece >= share.pieces || number >= __atomic_load_n(&team.wanted, __ATOMIC_RELAXED)) return 0;
    /* Where this succeeds the phase has not changed since, and what it consists of stays until the piece is done. */
    if (__atomic_compare_exchange_n(&team.ticket, &ticket, ticket + 1, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED)) {
        team.run(team.arguments, &share);
        __atomic_add_fetch(&team.done, 1, __ATOMIC_RELEASE);
    }
    return 1;
}

/* Sleep until somebody is worth it; 0 at the end. */
static int sleep_helper(int64_t number) {
    pthread_mutex_lock(&team.lock);
    const uint64_t own = (uint64_t)1 << number;
    __atomic_or_fetch(&team.asleep, own, __ATOMIC_RELAXED);
    while (team.asleep & own && !team.stop) pthread_cond_wait(&team.woken, &team.lock);
    const int stop = team.stop;
    pthread_mutex_unlock(&team.lock);
    return !stop;
}

static void *work(void *argument) {
    const int64_t number = (int64_t)(intptr_t)argument;
    do {
        int64_t since = nanoseconds();
        for (int64_t spins = 1; spins % LOOKS_PER_CLOCK || nanoseconds() - since < AWAKE_NS; spins++) {
            if (help(number)) {
                while (help(number)) {}
                since = nanoseconds();
                spins = 1;
            }
            pause_thread(spins);
        }
    } while (sleep_helper(number));
    return NULL;
}

static void wake_helpers(uint64_t which) {
    /* Who has the lock is about to sleep, and is not waited for. */
    if (pthread_mutex_trylock(&team.lock)) return;
    __atomic_and_fetch(&team.asleep, ~which, __ATOMIC_RELAXED);
    pthread_cond_broadcast(&team.woken);
    pthread_mutex_unlock(&team.lock);
}

static void run_phase(run_function run, const void *arguments, int64_t pieces) {
    const int64_t begun = nanoseconds();
    team.run = run;
    team.arguments = arguments;
    __atomic_store_n(&team.done, 0, __ATOMIC_RELAXED);
    const uint64_t phase = (__atomic_load_n(&team.ticket, __ATOMIC_RELAXED) >> 32) + 1;
    __atomic_store_n(&team.ticket, phase << 32 | (uint64_t)pieces << 16, __ATOMIC_RELEASE);
    while (help(-1)) {}
    int64_t waits_since = 0;
    for (int64_t spins = 0; __atomic_load_n(&team.done, __ATOMIC_ACQUIRE) < pieces; spins++) {
        if (spins == SPINS) waits_since = nanoseconds();
        pause_thread(spins);
    }
    if (waits_since) {
        const int64_t now = nanoseconds(), waited = now - waits_since;
        /* A piece of its own length is waited for more shortly than the caller computed before. */
        if (waited > LOST_NS && waited > waits_since - begun) team.rest = now + RESTS_PER_WAIT * waited;
    }
}

/* Run steps in order, on the calling thread and `threads` - 1 helpers at most. */
EXPORT void aisrv_team_run(int64_t threads, const struct step *steps, int64_t count) {
    const int64_t wanted = smaller(threads - 1, __atomic_load_n(&team.started, __ATOMIC_RELAXED));
    const uint64_t helpers = ((uint64_t)1 << wanted) - 1;
    int64_t left = 0;
    for (int64_t i = 0; i < count; i++) left += steps[i].pieces - 1;
    /* Nobody is awake, and this is not worth it to wake anybody. */
    const int is_small = left < WORTH_WAKING && !(helpers & ~__atomic_load_n(&team.asleep, __ATOMIC_RELAXED));
    if (!wanted || is_small || __atomic_exchange_n(&team.busy, 1, __ATOMIC_ACQUIRE)) {
        aisrv_run(steps, count);
        return;
    }
    if (team.rest && nanoseconds() < team.rest) {
        aisrv_run(steps, count);
        __atomic_store_n(&team.busy, 0, __ATOMIC_RELEASE);
        return;
    }
    team.rest = 0;
    __atomic_store_n(&team.wanted, wanted, __ATOMIC_RELAXED);
    for (int64_t i = 0; i < count; left -= steps[i++].pieces - 1) {
        uint64_t asleep = 0;
        if (steps[i].pieces > 1) {
            asleep = __atomic_load_n(&team.asleep, __ATOMIC_RELAXED) & helpers;
            if (asleep && left >= WORTH_WAKING) {
                wake_helpers(asleep);
                asleep = 0;
            }
        }
        if (steps[i].pieces == 1 || asleep == helpers) {
            aisrv_run(&steps[i], 1);
            continue;
        }
        const run_function *run = RUN[steps[i].variant][steps[i].kind];
        if (run[0]) run_phase(run[0], steps[i].arguments, smaller(steps[i].pieces, COPIES_PER_THREAD * threads));
        run_phase(run[1], steps[i].arguments, steps[i].pieces);
    }
    __atomic_store_n(&team.busy, 0, __ATOMIC_RELEASE);
}

/* A user needs so many helpers; 0 where the system does not start them. */
EXPORT int32_t aisrv_team_join(int64_t helpers) {
    pthread_mutex_lock(&team.members);
    int failed = 0;
#ifndef _WIN32
    /* Signals are the caller's, but for those that tell of an error of the helper's own. */
    sigset_t signals, before;
    sigfillset(&signals);
    sigdelset(&signals, SIGSEGV), sigdelset(&signals, SIGBUS), sigdelset(&signals, SIGFPE), sigdelset(&signals, SIGILL);
    pthread_sigmask(SIG_SETMASK, &signals, &before);
#endif
    while (team.started < smaller(helpers, MOST_HELPERS) && !failed) {
        failed = pthread_create(&team.helpers[team.started], NULL, work, (void *)(intptr_t)team.started);
        if (!failed) __atomic_add_fetch(&team.started, 1, __ATOMIC_RELAXED);
    }
#ifndef _WIN32
    pthread_sigmask(SIG_SETMASK, &before, NULL);
#endif
    team.users++;
    pthread_mutex_unlock(&team.members);
    return !failed;
}

/* A user needs helpers no longer; the last one ends them. */
EXPORT void aisrv_team_leave(void) {
    pthread_mutex_lock(&team.members);
    if (--team.users == 0) {
        pthread_mutex_lock(&team.lock);
        team.stop = 1;
        pthread_cond_broadcast(&team.woken);
        pthread_mutex_unlock(&team.lock);
        for (int64_t i = 0; i < team.started; i++) pthread_join(team.helpers[i], NULL);
        team.stop = 0;
        __atomic_store_n(&team.started, 0, __ATOMIC_RELAXED);
        team.asleep = 0;
    }
    pthread_mutex_unlock(&team.members);
}

/* In a forked process there are no helpers, and nobody who holds a lock; its users compute alone. */
EXPORT void aisrv_team_forked(void) {
    pthread_mutex_init(&team.lock, NULL);
    pthread_cond_init(&team.woken, NULL);
    pthread_mutex_init(&team.members, NULL);
    team.ticket = team.ticket >> 32 << 32;
    team.started = 0;
    team.asleep = 0;
    team.rest = 0;
    team.busy = team.stop = 0;
}
