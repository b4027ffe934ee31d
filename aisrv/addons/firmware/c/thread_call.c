/* The threads of lib_tflite_micro's thread_call.h, whose code is assembly of the XS3 there: cores that wait for calls. Here
 * a core is taken for the time of each call alone. A program's own functions of these names come before. */
#include <string.h>
#include <xcore/parallel.h>

#include "runtime.h"

enum { MOST_CLIENTS = 32, CLIENTS = 4 };
typedef void (*function_t)(void *, void *, void *);
typedef struct {
    uint32_t ids[CLIENTS];
    uint32_t synchroniser, words_of_stack;
    void *stacks;
} info_t;
typedef struct {
    int used;
    void *arguments[2];
} client_t;
typedef struct {
    function_t function;
    void *arguments[3];
} call_t;

static client_t clients[MOST_CLIENTS];

static client_t *client_of(uint32_t id) {
    uint32_t place = (id >> 8) - 1;
    if ((id & 0xFF) != XS1_RES_TYPE_THREAD || place >= MOST_CLIENTS || !clients[place].used) {
        runtime_trap(TRAP_ILLEGAL_RESOURCE, "a thread that thread_init did not make, or that is destroyed");
    }
    return &clients[place];
}

static void init(info_t *info, unsigned count) {
    memset(info->ids, 0, sizeof info->ids);
    if (runtime_verb(VERB_CORES_FREE, 0, 0) < count) {
        runtime_trap(TRAP_ILLEGAL_RESOURCE, "more threads than logical cores are left");
    }
    for (unsigned place = 0, made = 0; place < MOST_CLIENTS && made < count; place++) {
        if (clients[place].used) continue;
        clients[place] = (client_t){1, {NULL, NULL}};
        info->ids[made++] = (place + 1) << 8 | XS1_RES_TYPE_THREAD;
    }
}
__attribute__((weak)) void thread_destroy(info_t *info) {
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (info->ids[i]) client_of(info->ids[i])->used = 0;
    }
}
__attribute__((weak)) void thread_variable_setup(void *first, void *second, uint32_t id) {
    client_of(id)->arguments[0] = first;
    client_of(id)->arguments[1] = second;
}
static void run_client(void *argument) {
    call_t *call = argument;
    call->function(call->arguments[0], call->arguments[1], call->arguments[2]);
}
__attribute__((weak)) void thread_call(void *shared, void *first, void *second, function_t function, info_t *info) {
    call_t calls[CLIENTS];
    xc_job_t jobs[CLIENTS];
    size_t count = 0;
    for (unsigned i = 0; i < CLIENTS; i++) {
        if (!info->ids[i]) continue;
        const client_t *client = client_of(info->ids[i]);
        calls[count] = (call_t){function, {shared, client->arguments[0], client->arguments[1]}};
        jobs[count] = (xc_job_t){run_client, &calls[count], "thread_call"};
        count++;
    }
    uint32_t join = xc_fork(count, jobs);
    function(shared, first, second);
    xc_join(join);
}

extern int interp_invoke_internal(void *engine) __attribute__((weak));

static int invoke(void *engine, info_t *info, unsigned count) {
    if (!interp_invoke_internal) runtime_trap(TRAP_ECALL, "thread_invoke without interp_invoke_internal");
    init(info, count);
    int result = interp_invoke_internal(engine);
    thread_destroy(info);
    return result;
}

#define OF_THREADS(threads)                                                                                      \
    __attribute__((weak)) void thread_init_##threads(info_t *info) { init(info, threads - 1); }                 \
    __attribute__((weak)) int thread_invoke_##threads(void *engine, info_t *info) {                             \
        return invoke(engine, info, threads - 1);                                                              \
    }
OF_THREADS(1)
OF_THREADS(2)
OF_THREADS(3)
OF_THREADS(4)
OF_THREADS(5)
