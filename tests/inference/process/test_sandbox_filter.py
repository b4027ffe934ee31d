"""The seccomp filters: their answer to every system call, told by a machine of the tests' own."""

import errno
import fcntl
import os
import termios

import pytest

from aisrv.inference.process.sandbox import Layers
from aisrv.inference.process.sandbox_layers import sandbox, sandbox_line
from tests.support.peers import bpf
from tests.support.programs import missing

ALWAYS = """
    read pread64 write writev recvmsg recvfrom sendto sendmsg munmap mremap brk futex rt_sigreturn
    rt_sigaction rt_sigprocmask sigaltstack exit exit_group clock_gettime clock_nanosleep nanosleep
    sched_yield setitimer madvise fstat newfstatat lseek getrandom sched_getaffinity gettid getpid
    close poll ppoll epoll_wait restart_syscall rseq set_robust_list sysinfo getrusage
"""  # what was measured to be needed by all interpreters, and reaches out of no process
WRITING = "openat mkdir mkdirat readlink readlinkat rename renameat renameat2 unlink unlinkat dup getcwd"
BY_ARGUMENT = "mmap mprotect fcntl tgkill"
NUMBERS = range(512)
"""Linux has fewer."""
PROGRAMS = ["plain", "emulator", "writing", "writing emulator"]
EXTREMES = (0, 1 << 16, 1 << 31, (1 << 64) - 1)


def filter_of(name: str) -> bytes:
    whole = sandbox(writing="writing" in name)
    if Layers.SECCOMP not in whole.layers or os.uname().machine != "x86_64":
        missing(f"there is no filter for x86-64 here: {sandbox_line()}")
    return whole.emulator_program if "emulator" in name else whole.program


def numbers(names: str) -> set[int]:
    import pyseccomp

    found = {name: pyseccomp.resolve_syscall(pyseccomp.system_arch(), name) for name in names.split()}
    assert min(found.values()) >= 0, found
    return set(found.values())


def number(name: str) -> int:
    (found,) = numbers(name)
    return found


def allows(program: bytes, *call: int) -> bool:
    return bpf.verdict(program, *call) == bpf.ALLOW


@pytest.mark.parametrize("name", PROGRAMS)
def test_system_calls_that_are_allowed_in_some_form(name: str) -> None:
    program = filter_of(name)
    expected = numbers(ALWAYS) | numbers(BY_ARGUMENT)
    if "writing" in name:
        expected |= numbers(WRITING) | numbers("ioctl")
    if "emulator" in name:
        expected |= numbers("clone")
    commands = [*EXTREMES, fcntl.F_DUPFD_CLOEXEC, termios.TCGETS]
    found = {
        each
        for each in NUMBERS
        for first in EXTREMES
        for command in commands
        for third in (0, 6)
        if allows(program, each, first, command, third)
    }
    assert found == expected


@pytest.mark.parametrize("name", PROGRAMS)
def test_all_others_are_an_error_that_a_program_survives(name: str) -> None:
    program = filter_of(name)
    answers = {bpf.verdict(program, each) for each in NUMBERS} - {bpf.ALLOW}
    no_clone3 = {bpf.ERRNO | errno.ENOSYS} if "emulator" in name else set()
    assert answers == {bpf.ERRNO | errno.EPERM} | no_clone3


@pytest.mark.parametrize("name", PROGRAMS)
def test_calls_of_another_architecture_are_not_allowed(name: str) -> None:
    program = filter_of(name)
    i386, x32 = 0x40000003, 0x40000000
    assert {bpf.verdict(program, each, architecture=i386) for each in NUMBERS} <= {
        bpf.KILL_PROCESS,
        bpf.KILL_THREAD,
    }
    assert not [each for each in NUMBERS if allows(program, x32 | each)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_fcntl_duplicates_and_neither_seals_nor_signals(name: str) -> None:
    program = filter_of(name)
    allowed = {command for command in range(2048) if allows(program, number("fcntl"), 3, command)}
    more = {fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL} if "writing" in name else set()
    assert allowed == {fcntl.F_DUPFD_CLOEXEC} | more
    asked = {request for request in range(0x5300, 0x9000) if allows(program, number("ioctl"), 3, request)}
    assert asked == ({termios.TCGETS, termios.FIOCLEX} if "writing" in name else set())


@pytest.mark.parametrize("name", PROGRAMS)
def test_tgkill_sends_sigabrt_alone(name: str) -> None:
    program = filter_of(name)
    assert {each for each in range(-1, 256) if allows(program, number("tgkill"), 1, 1, each)} == {6}
    for other in ("kill", "tkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal"):
        assert not allows(program, number(other), 1, 6, 6)


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_emulators_make_code(name: str) -> None:
    program = filter_of(name)
    for call in ("mmap", "mprotect"):
        allowed = {each for each in range(8) if allows(program, number(call), 0, 4096, each)}
        assert allowed == ({*range(8)} if "emulator" in name else {0, 1, 2, 3})


@pytest.mark.parametrize("name", PROGRAMS)
def test_only_emulators_start_threads_and_none_starts_processes(name: str) -> None:
    program = filter_of(name)
    thread = 0x10000
    assert allows(program, number("clone"), thread) is ("emulator" in name)
    for flags in (0, 17, 0x7E020000, (1 << 64) - 1 & ~thread):
        assert not allows(program, number("clone"), flags)
    for other in ("clone3", "fork", "vfork", "execve", "execveat", "unshare", "ptrace"):
        assert not allows(program, number(other), thread)
