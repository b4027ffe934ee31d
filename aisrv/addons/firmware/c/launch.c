/* Starts a program with the rights that it is given, and no others: `launch RIGHTS REPORT COMMAND...`.
 *
 * RIGHTS is a descriptor that holds them, as `aisrv/addons/firmware/confinement.py` packs them. On REPORT it writes what went
 * wrong; nothing where the program runs. All layers hold before the first instruction of the program. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { LANDLOCK_CREATE = 444, LANDLOCK_ADD = 445, LANDLOCK_RESTRICT = 446, PATH_BENEATH = 1 };
enum { MOST_BYTES = 1 << 20, FAILED = 119 };
enum { NO_NEW_PRIVILEGES = 1, LANDLOCK = 2, SIGNALS = 4 };

typedef struct __attribute__((packed)) {
    uint32_t flags, parent;
    uint64_t handled[3]; /* Landlock: rights on files, on the network, and what is scoped */
    uint32_t handled_bytes, limits, rules, filter_bytes;
} head_t;
typedef struct __attribute__((packed)) {
    uint64_t kind, value;
} limit_t;
typedef struct __attribute__((packed)) {
    uint64_t rights;
    uint32_t path_bytes; /* with the 0 at its end */
} rule_t;

static char rights[MOST_BYTES];
static size_t rights_bytes, place;
static int report;

__attribute__((noreturn)) static void fail(const char *what) {
    dprintf(report, "%s: %s", what, strerror(errno));
    _exit(FAILED);
}

static void *take(size_t bytes) {
    void *taken = rights + place;
    errno = EINVAL;
    if (bytes > rights_bytes - place) fail("the rights of a program");
    place += bytes;
    return taken;
}

static void lower(const limit_t *limit) {
    struct rlimit now, wanted = {limit->value, limit->value};
    if (getrlimit((int)limit->kind, &now)) fail("limits");
    if (now.rlim_max < wanted.rlim_max) wanted.rlim_cur = wanted.rlim_max = now.rlim_max;
    if (setrlimit((int)limit->kind, &wanted)) fail("limits");
}

static void restrict_files(const head_t *head, int rules) {
    for (uint32_t count = head->rules; count--;) {
        const rule_t *rule = take(sizeof *rule);
        const char *path = take(rule->path_bytes);
        struct __attribute__((packed)) {
            uint64_t rights;
            int32_t place;
        } beneath = {rule->rights, open(path, O_PATH | O_CLOEXEC)};
        if (beneath.place < 0) fail(path);
        if (rules >= 0 && syscall(LANDLOCK_ADD, rules, PATH_BENEATH, &beneath, 0)) fail(path);
        close(beneath.place);
    }
    if (rules >= 0 && syscall(LANDLOCK_RESTRICT, rules, 0)) fail("Landlock");
}

static void add_filter(struct sock_filter *code, size_t count) {
    struct sock_fprog program = {(unsigned short)count, code};
    if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)) fail("seccomp");
}

/* Signals go to the program itself alone: calls that send any have its number, which no other filter can know. */
#define LOAD(field) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, field))
#define IF(value, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no)
#define ANSWER(value) BPF_STMT(BPF_RET | BPF_K, value)
static void keep_signals(void) {
    struct sock_filter code[] = {
        LOAD(arch),
        IF(AUDIT_ARCH_X86_64, 0, 7),
        LOAD(nr),
        IF(62, 12, 0),  /* kill */
        IF(200, 11, 0), /* tkill */
        IF(234, 10, 0), /* tgkill */
        IF(129, 9, 0),  /* rt_sigqueueinfo */
        IF(297, 8, 0),  /* rt_tgsigqueueinfo */
        IF(424, 10, 9), /* pidfd_send_signal */
        LOAD(nr),       /* the same of i386 */
        IF(37, 5, 0),
        IF(238, 4, 0),
        IF(270, 3, 0),
        IF(178, 2, 0),
        IF(335, 1, 0),
        IF(424, 3, 2),
        LOAD(args[0]),
        IF((uint32_t)getpid(), 0, 1),
        ANSWER(SECCOMP_RET_ALLOW),
        ANSWER(SECCOMP_RET_ERRNO | EPERM),
    };
    add_filter(code, sizeof code / sizeof *code);
}

int main(int count, char **words) {
    if (count < 4) return FAILED;
    int given = atoi(words[1]);
    report = atoi(words[2]);
    fcntl(given, F_SETFD, FD_CLOEXEC);
    fcntl(report, F_SETFD, FD_CLOEXEC);
    ssize_t got;
    while ((got = pread(given, rights + rights_bytes, MOST_BYTES - rights_bytes, (off_t)rights_bytes)) > 0) {
        rights_bytes += (size_t)got;
    }
    const head_t *head = take(sizeof *head);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if ((uint32_t)getppid() != head->parent) return FAILED; /* it died before we could say so */
    if (head->flags & NO_NEW_PRIVILEGES && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)) fail("no new privileges");
    int rules = -1;
    if (head->flags & LANDLOCK) {
        rules = (int)syscall(LANDLOCK_CREATE, head->handled, (size_t)head->handled_bytes, 0);
        if (rules < 0) fail("Landlock");
        fcntl(rules, F_SETFD, FD_CLOEXEC);
    }
    const limit_t *limits = take(head->limits * sizeof *limits);
    restrict_files(head, rules);
    struct sock_filter *filter = take(head->filter_bytes);
    for (uint32_t each = 0; each < head->limits; each++) lower(&limits[each]);
    if (head->flags & SIGNALS) keep_signals();
    if (head->filter_bytes) add_filter(filter, head->filter_bytes / sizeof *filter);
    execvp(words[3], words + 3);
    fail(words[3]);
}
