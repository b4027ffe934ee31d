"""The filter of system calls of a tile's program: what the C library needs for one thread, files and time.

Source: "The sandbox of inference workers"; programs of tiles need more, as the C library is this machine's.
"""

import errno
import signal
from collections.abc import Iterator
from functools import cache
from typing import Any, Final

from aisrv.inference.process.sandbox_layers import (
    ALLOWED,
    WRITING,
    exported,
    seccomp_binding,
    why_no_seccomp,
)

# By `execve` no layer falls: Landlock says what is a program. AddressSanitizer has its program begin anew
# with another `personality`, without random addresses.
_STARTING: Final = """
    execve arch_prctl set_tid_address set_thread_area mmap mmap2 mprotect getrlimit ugetrlimit
    personality
"""
_FILES: Final = """
    open access faccessat faccessat2 stat lstat stat64 lstat64 fstat64 statx fstatat64 statfs fstatfs
    statfs64 fstatfs64 getdents getdents64 chdir fchdir readv preadv pwrite64 pwritev _llseek truncate
    truncate64 ftruncate ftruncate64 fsync fdatasync msync fallocate fadvise64 fadvise64_64 flock
    sendfile sendfile64 copy_file_range rmdir link linkat umask pipe pipe2 dup2 dup3
"""
_WAITING: Final = """
    pause alarm getitimer gettimeofday time times clock_getres clock_gettime64 clock_getres_time64
    clock_nanosleep_time64 futex_time64 timer_create timer_settime timer_gettime timer_delete
    timer_getoverrun timerfd_create timerfd_settime timerfd_gettime select _newselect pselect6
    pselect6_time64 ppoll_time64 epoll_create epoll_create1 epoll_ctl epoll_pwait eventfd2 wait4 waitid
    waitpid
"""
_ITSELF: Final = """
    uname getuid geteuid getgid getegid getuid32 geteuid32 getgid32 getegid32 getppid getpgrp getcpu
    mincore sigreturn sigprocmask rt_sigpending rt_sigsuspend rt_sigtimedwait rt_sigtimedwait_time64
"""
# To the program itself alone: a filter of the launcher's sees to that.
_SIGNALS: Final = "kill tkill tgkill rt_sigqueueinfo rt_tgsigqueueinfo"
_NETWORK: Final = """
    connect bind listen accept accept4 getsockname getpeername setsockopt getsockopt shutdown sendmmsg
    recvmmsg
"""
_UNKNOWN: Final = -1
"""Number of a call that no architecture has; those that another call carries have other ones below 0."""
_FAMILIES: Final = (2, 10, 16)
"""IPv4, IPv6, and the kernel's own, which the C library asks for addresses. No local sockets."""
_FCNTL: Final = (0, 1, 2, 3, 4, 5, 6, 7, 12, 13, 14, 36, 37, 38, 1030)
"""Duplicates, flags and locks; others signal and seal."""
_IOCTL: Final = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451, 0x802C542A)
"""Settings and size of a terminal, bytes to read, flags of the descriptor; others type into terminals."""
_PR_SET_PDEATHSIG: Final = 1
_PRCTL: Final = (2, 3, 15, 16, 39, 0x53564D41)
"""To ask for that signal, for rights, and whether it is dumped; names of it and of its memory."""


@cache
def filter_of_calls(*, bits: int, network: bool) -> bytes:
    """Return the filter for programs of so many bits: what it does not allow answers EPERM.

    Empty where this machine has none. One of 64 bits is ended by calls of 32; one of 32 bits is started by
    those of 64. With 32 bits the family of a socket lies in memory, which no filter sees: with the network
    there are local sockets, too.
    """
    if why_no_seccomp():
        return b""
    seccomp: Any = seccomp_binding()
    rules = seccomp.SyscallFilter(seccomp.ERRNO(errno.EPERM))
    arches = [seccomp.system_arch()]
    if bits == 32:
        rules.add_arch(seccomp.Arch.X86)
        arches.append(seccomp.Arch.X86)

    def is_there(name: str) -> bool:
        return any(seccomp.resolve_syscall(arch, name) != _UNKNOWN for arch in arches)

    own = " ".join((_STARTING, _FILES, _WAITING, _ITSELF, _SIGNALS, _NETWORK if network else ""))
    for name in filter(is_there, dict.fromkeys((*ALLOWED, *WRITING, *own.split()))):
        rules.add_rule(seccomp.ALLOW, name)
    for name, place, value in _with_arguments(network=network):
        if is_there(name):
            rules.add_rule(seccomp.ALLOW, name, seccomp.Arg(place, seccomp.EQ, value))
    rules.add_rule(
        seccomp.ALLOW,
        "prctl",
        seccomp.Arg(0, seccomp.EQ, _PR_SET_PDEATHSIG),
        seccomp.Arg(1, seccomp.EQ, signal.SIGKILL),
    )
    rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    return exported(rules)


def _with_arguments(*, network: bool) -> Iterator[tuple[str, int, int]]:
    """Yield calls that are allowed with a value of one argument, the argument's place, and the value."""
    for command in _FCNTL:
        yield "fcntl", 1, command
        yield "fcntl64", 1, command
    for request in _IOCTL:
        yield "ioctl", 1, request
    for option in _PRCTL:
        yield "prctl", 0, option
    yield "prlimit64", 0, 0  # those of the program itself
    for family in _FAMILIES if network else ():
        yield "socket", 0, family
