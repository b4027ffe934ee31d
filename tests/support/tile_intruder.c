/* What a task in C may try against the device and this machine: `tile_intruder VICTIM PLACE PORT ATTEMPT...`.
 *
 * It prints a line for each attempt: whether it "could", or was "refused". VICTIM is a process, PLACE a folder that holds
 * `outside`, `reads` and `writes`, each with a file `file`, and a local socket `socket`; PORT is one of TCP. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/keyctl.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t victim;
static int port;

static int reads(const char *path) {
    char byte;
    int file = open(path, O_RDONLY);
    return file >= 0 && read(file, &byte, 1) == 1;
}
static int writes(const char *path, int flags) {
    int file = open(path, O_WRONLY | flags, 0600);
    return file >= 0 && write(file, "x", 1) == 1;
}
static int lists(const char *path) {
    DIR *folder = opendir(path);
    return folder && readdir(folder);
}
static int child_of(long pid) {
    if (pid < 0) return 0;
    if (pid == 0) _exit(0);
    return waitpid((pid_t)pid, NULL, 0) == pid || 1;
}
static int in_a_thread(void *unused) { (void)unused; return 0; }
static int starts_thread(void) {
    static char stack[65536];
    int flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM;
    if (clone(in_a_thread, stack + sizeof stack, flags, NULL) < 0) return 0;
    usleep(1000);
    return 1;
}
static int clones_anew(void) {
    struct { unsigned long flags, pidfd, child, parent, exit_signal, stack, stack_bytes, tls; } of = {0};
    of.exit_signal = SIGCHLD;
    return child_of(syscall(435, &of, sizeof of));
}
static int forks_as_nobody(void) { /* root forks as it likes, whatever its limit is */
    if (!geteuid() && (syscall(SYS_setresgid, 65534, 65534, 65534) || syscall(SYS_setresuid, 65534, 65534, 65534))) return 0;
    return child_of(syscall(SYS_fork));
}
static int reads_memory(void) {
    char here[8];
    struct iovec to = {here, 8}, from = {here, 8}; /* any address: it is the right that counts */
    return process_vm_readv(victim, &to, 1, &from, 1, 0) >= 0 || errno == EFAULT;
}
static int writes_memory(void) {
    char here[8] = {0};
    struct iovec from = {here, 8}, to = {(void *)8, 8};
    return process_vm_writev(victim, &from, 1, &to, 1, 0) >= 0 || errno == EFAULT;
}
static int opens_memory(void) {
    char path[32];
    snprintf(path, sizeof path, "/proc/%d/mem", victim);
    return open(path, O_RDWR) >= 0;
}
static int connects(int type, int family) {
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr = {htonl(0x7f000001)}};
    int end = socket(family, type, 0);
    return end >= 0 && (connect(end, (struct sockaddr *)&to, sizeof to) == 0 || errno == ECONNREFUSED);
}
static int listens(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(0x7f000001)}};
    int end = socket(AF_INET, SOCK_STREAM, 0);
    return end >= 0 && bind(end, (struct sockaddr *)&at, sizeof at) == 0 && listen(end, 1) == 0;
}
static int reaches(const char *name, size_t bytes) {
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    memcpy(to.sun_path, name, bytes);
    int end = socket(AF_UNIX, SOCK_STREAM, 0);
    return end >= 0 && connect(end, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + bytes)) == 0;
}
static int reaches_abstract(void) {
    char name[64] = "";
    return reaches(name, 1 + (size_t)snprintf(name + 1, sizeof name - 1, "aisrv-victim-%d", victim));
}
static int takes(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return 0;
    munmap(memory, bytes);
    return 1;
}
static int opens_many(void) {
    int files[200], count = 0;
    while (count < 200 && (files[count] = dup(0)) >= 0) count++;
    int all = count == 200;
    while (count--) close(files[count]);
    return all;
}
static int limits(int kind, int of) {
    struct rlimit limit;
    if (syscall(SYS_prlimit64, of, kind, NULL, &limit)) return 0;
    return syscall(SYS_prlimit64, of, kind, &limit, NULL) == 0;
}
static int has(int kind) {
    struct rlimit limit;
    return getrlimit(kind, &limit) == 0 && limit.rlim_max > 0;
}
static int writes_much(void) {
    signal(SIGXFSZ, SIG_IGN);
    int file = open("writes/much", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    return file >= 0 && ftruncate(file, (off_t)1 << 31) == 0;
}
static int signals_by_file(void) {
    int file = open("/dev/null", O_RDONLY);
    return file >= 0 && fcntl(file, F_SETOWN, victim) == 0;
}
static int types_into_terminal(void) {
    return ioctl(0, TIOCSTI, "") == 0 || errno == ENOTTY || errno == EIO;
}
static int asks_for_rings(void) { return syscall(425, 1, NULL) >= 0 || errno == EFAULT; }
static int mounts(void) { return mount("none", "/aisrv-no-such-folder", "tmpfs", 0, NULL) == 0 || errno == ENOENT; }
static int keeps_its_rights(void) { return prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1; }
static int outlives(void) { return prctl(PR_SET_PDEATHSIG, 0) == 0; }
static int sends_information(void) {
    siginfo_t information = {.si_code = SI_QUEUE};
    return syscall(SYS_rt_sigqueueinfo, victim, 0, &information) == 0;
}
static int signals_by_descriptor(void) {
    int process = (int)syscall(434, victim, 0);
    return process >= 0 && syscall(424, process, 0, NULL, 0) == 0;
}

#define TRY(text, condition) if (!strcmp(name, text)) return condition
static int attempt(const char *name) {
    TRY("read a file outside", reads("outside/file"));
    TRY("write a file outside", writes("outside/file", 0));
    TRY("make a file outside", writes("outside/new", O_CREAT));
    TRY("list a folder outside", lists("outside"));
    TRY("remove a file outside", unlink("outside/gone") == 0);
    TRY("shorten a file outside", truncate("outside/file", 3) == 0);
    TRY("link a file from outside", link("outside/file", "writes/linked") == 0);
    TRY("move a file from outside", rename("outside/moves", "writes/moved") == 0);
    TRY("read through a link to outside", reads("writes/link"));
    TRY("change rights of a file", chmod("writes/file", 0600) == 0);
    TRY("read a file to read", reads("reads/file"));
    TRY("list a folder to read", lists("reads"));
    TRY("write a file to read", writes("reads/file", 0));
    TRY("read a file to write", reads("writes/file"));
    TRY("write a file to write", writes("writes/file", 0));
    TRY("make a file to write", writes("writes/new", O_CREAT));
    TRY("remove a file to write", unlink("writes/gone") == 0);
    TRY("make a folder to write", mkdir("writes/folder", 0700) == 0);
    TRY("write a large file", writes_much());
    TRY("signal the device", kill(victim, SIGCONT) == 0);
    TRY("signal a thread of the device", syscall(SYS_tgkill, victim, victim, SIGCONT) == 0);
    TRY("signal the device by its thread", syscall(SYS_tkill, victim, SIGCONT) == 0);
    TRY("signal the device with information", sends_information());
    TRY("signal the device by a descriptor", signals_by_descriptor());
    TRY("signal the device by a file", signals_by_file());
    TRY("signal itself", kill(getpid(), 0) == 0 && raise(SIGCONT) == 0);
    TRY("trace the device", ptrace(PTRACE_SEIZE, victim, NULL, NULL) == 0);
    TRY("read the device's memory", reads_memory());
    TRY("write the device's memory", writes_memory());
    TRY("open the device's memory", opens_memory());
    TRY("change a limit of the device", limits(RLIMIT_CPU, victim));
    TRY("fork", child_of(syscall(SYS_fork)));
    TRY("vfork", child_of(vfork()));
    TRY("clone", child_of(syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0)));
    TRY("clone anew", clones_anew());
    TRY("start a thread", starts_thread());
    TRY("leave the session", setsid() >= 0 || setpgid(0, 0) == 0);
    TRY("connect by TCP", connects(SOCK_STREAM, AF_INET));
    TRY("listen on TCP", listens());
    TRY("send by UDP", connects(SOCK_DGRAM, AF_INET));
    TRY("reach a local socket", reaches("socket", 7));
    TRY("reach an abstract socket", reaches_abstract());
    TRY("take much memory", takes((size_t)3 << 30));
    TRY("take little memory", takes(1 << 20));
    TRY("make a file in memory", memfd_create("x", 0) >= 0);
    TRY("lock memory", has(RLIMIT_MEMLOCK));
    TRY("fill message queues", has(RLIMIT_MSGQUEUE));
    TRY("leave a core", has(RLIMIT_CORE));
    TRY("open many files", opens_many());
    TRY("type into the terminal", types_into_terminal());
    TRY("queue calls", asks_for_rings());
    TRY("mount", mounts());
    TRY("gain rights of programs", keeps_its_rights());
    TRY("outlive its parent", outlives());
    TRY("fork as nobody", forks_as_nobody()); /* the last one: it changes the user */
    fprintf(stderr, "there is no attempt %s\n", name);
    exit(3);
}

int main(int count, char **words) {
    victim = atoi(words[1]);
    if (chdir(words[2])) return 2;
    port = atoi(words[3]);
    for (int each = 4; each < count; each++) {
        printf("%s %s\n", attempt(words[each]) ? "could" : "refused", words[each]);
        fflush(stdout);
    }
    return 0;
}
