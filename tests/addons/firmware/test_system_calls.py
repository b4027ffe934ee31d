"""The filter of programs of tiles: its answer to every system call, told by a machine of the tests' own."""

import errno
import fcntl
import termios

import pytest

from aisrv.addons.firmware.system_calls import filter_of_calls
from aisrv.inference.process.sandbox_layers import why_no_seccomp
from tests.support.peers import bpf
from tests.support.programs import missing

I386 = 0x40000003
ARCHITECTURES = {"X86_64": bpf.X86_64, "X86": I386}
NUMBERS = range(512)
"""Linux has fewer."""
REFUSED = """
    fork vfork clone execveat ptrace process_vm_readv process_vm_writev pidfd_open pidfd_getfd
    pidfd_send_signal process_madvise kcmp setpgid setsid setuid setgid setreuid setregid setresuid
    setresgid setgroups setfsuid capset setrlimit setpriority sched_setaffinity sched_setscheduler
    ioprio_set chmod fchmod fchmodat chown fchown fchownat lchown setxattr utimensat mknod mknodat
    symlink symlinkat mount umount2 pivot_root chroot unshare setns swapon reboot sethostname
    init_module finit_module delete_module kexec_load bpf perf_event_open userfaultfd io_uring_setup
    io_uring_enter io_uring_register keyctl add_key request_key memfd_create memfd_secret shmget shmat
    msgget semget mq_open socketpair seccomp landlock_restrict_self open_by_handle_at name_to_handle_at
    fanotify_init inotify_init1 iopl ioperm modify_ldt syslog acct quotactl settimeofday clock_settime
    adjtimex mlock mlockall vmsplice splice tee lookup_dcookie remap_file_pages
"""
"""What reaches out of a program, or takes what no limit bounds."""
MULTIPLEXED = {"socket": 359, "socketpair": 360, "bind": 361, "connect": 362, "listen": 363, "accept4": 364}
"""Numbers on i386 of calls that `socketcall` carries there, too."""
NETWORK = "connect bind listen accept4 sendmmsg"


def filter_for(architecture: str, *, network: bool = False) -> bytes:
    if reason := why_no_seccomp():
        missing(f"there is no filter here: {reason}")
    return filter_of_calls(bits=32 if architecture == "X86" else 64, network=network)


def numbers(names: str, architecture: str) -> dict[str, int]:
    """Numbers of the calls that an architecture has."""
    import pyseccomp

    of = getattr(pyseccomp.Arch, architecture)
    found = {name: pyseccomp.resolve_syscall(of, name) for name in names.split()}
    found |= {
        name: number for name, number in MULTIPLEXED.items() if name in found and of == pyseccomp.Arch.X86
    }
    return {name: number for name, number in found.items() if number >= 0}


def allows(program: bytes, architecture: str, number: int, *arguments: int) -> bool:
    return bpf.verdict(program, number, *arguments, architecture=ARCHITECTURES[architecture]) == bpf.ALLOW


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_calls_that_reach_out_are_refused_whatever_their_arguments(
    architecture: str, *, network: bool
) -> None:
    program = filter_for(architecture, network=network)
    calls = numbers(REFUSED, architecture)
    assert len(calls) > 70
    values = (0, 1, 2, 1 << 16, (1 << 64) - 1)
    allowed = {
        name
        for name, number in calls.items()
        for first in values
        for second in values
        if allows(program, architecture, number, first, second)
    }
    assert not allowed


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_all_others_are_an_error_that_a_program_survives(architecture: str) -> None:
    program = filter_for(architecture)
    answers = {bpf.verdict(program, each, architecture=ARCHITECTURES[architecture]) for each in NUMBERS}
    assert answers - {bpf.ALLOW} == {bpf.ERRNO | errno.EPERM, bpf.ERRNO | errno.ENOSYS}
    (clone3,) = numbers("clone3", architecture).values()
    unknown = bpf.verdict(program, clone3, architecture=ARCHITECTURES[architecture])
    assert unknown == bpf.ERRNO | errno.ENOSYS  # the C library takes clone then


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_calls_of_another_architecture_are_not_allowed(architecture: str) -> None:
    program = filter_for(architecture)
    arm = 0xC00000B7
    if architecture == "X86_64":
        assert not [each for each in NUMBERS if allows(program, "X86", each)]
    assert bpf.ALLOW not in {bpf.verdict(program, each, architecture=arm) for each in NUMBERS}
    assert not [each for each in NUMBERS if allows(program, "X86_64", 0x40000000 | each)]


@pytest.mark.parametrize("network", [False, True])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sockets_are_those_of_the_network_where_it_is_given(architecture: str, *, network: bool) -> None:
    program = filter_for(architecture, network=network)
    (socket,) = numbers("socket", architecture).values()
    families = {each for each in range(64) if allows(program, architecture, socket, each, 1, 0)}
    assert families == ({2, 10, 16} if network else set())
    for number in numbers(NETWORK, architecture).values():
        assert allows(program, architecture, number) is network
    if architecture == "X86":
        (carries,) = numbers("socketcall", architecture).values()
        makes = {call for call in (1, 3, 8) if allows(program, architecture, carries, call)}
        assert makes == ({1, 3} if network else set())  # socket and connect, of any family; no socketpair


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_what_arguments_say_is_its_own(architecture: str) -> None:
    program = filter_for(architecture)
    of = numbers("fcntl ioctl prctl prlimit64", architecture)
    commands = {each for each in range(2048) if allows(program, architecture, of["fcntl"], 3, each)}
    assert not commands & {fcntl.F_SETOWN, fcntl.F_SETSIG, 15, fcntl.F_ADD_SEALS, fcntl.F_NOTIFY}
    assert commands == {*range(8), 12, 13, 14, 36, 37, 38, fcntl.F_DUPFD_CLOEXEC}
    requests = {each for each in range(0x5300, 0x5500) if allows(program, architecture, of["ioctl"], 0, each)}
    assert requests == {
        *(termios.TCGETS, termios.TIOCGWINSZ, termios.FIONREAD, termios.FIONBIO),
        *(termios.FIOCLEX, termios.FIONCLEX),
    }
    options = {each for each in range(128) if allows(program, architecture, of["prctl"], each, 0)}
    assert options == {2, 3, 15, 16, 39}
    signals = {each for each in range(65) if allows(program, architecture, of["prctl"], 1, each)}
    assert signals == {9}  # PR_SET_PDEATHSIG
    assert {each for each in (0, 1, 2, 4242) if allows(program, architecture, of["prlimit64"], each)} == {0}
