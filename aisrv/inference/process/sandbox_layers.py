"""Layers of the sandbox on this machine, and the seccomp filter, made once for all workers.

Source: "The sandbox of inference workers".
"""

import ctypes
import errno
import logging
import os
import tempfile
from collections.abc import Iterator
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final, NamedTuple

import trio

from aisrv.inference.process.sandbox import NOBODY, Layers, Sandbox

logger = logging.getLogger(__name__)

ALLOWED: Final = (
    "read",
    "pread64",
    "write",
    "writev",
    "recvmsg",
    "recvfrom",
    "sendto",
    "sendmsg",
    "munmap",
    "mremap",
    "brk",
    "futex",
    "rt_sigreturn",
    "rt_sigaction",
    "rt_sigprocmask",
    "sigaltstack",
    "exit",
    "exit_group",
    "clock_gettime",
    "clock_nanosleep",
    "nanosleep",
    "sched_yield",
    "setitimer",
    "madvise",
    "fstat",
    "newfstatat",
    "lseek",
    "getrandom",
    "sched_getaffinity",
    "gettid",
    "getpid",
    "close",
    "poll",
    "ppoll",
    "epoll_wait",
    "restart_syscall",
    "rseq",
    "set_robust_list",
    "sysinfo",
    "getrusage",
)
"""System calls that interpreters need once they are imported; none reaches out of the process."""

WRITING: Final = (
    "openat",
    "mkdir",
    "mkdirat",
    "readlink",
    "readlinkat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "dup",
    "getcwd",
)
"""System calls of a worker that writes into a folder; Landlock keeps it in the folder."""

_EXECUTABLE: Final = 4
_SIGABRT: Final = 6
_CLONE_THREAD: Final = 0x10000
_LANDLOCK_CREATE: Final = 444
_LANDLOCK_ASK_VERSION: Final = 1
_SECCOMP: Final = {"x86_64": 317, "aarch64": 277, "riscv64": 277}
_SECCOMP_GET_ACTION_AVAIL: Final = 2


class SandboxLayer(NamedTuple):
    """One layer of the sandbox on this machine."""

    name: str
    holds: bool
    detail: str
    """Rights that it denies to a worker, or the reason why it does not hold."""

    def __str__(self) -> str:
        return self.name if self.holds else f"no {self.name} ({self.detail})"


def sandbox_layers() -> tuple[SandboxLayer, ...]:
    """Return the layers for the workers that this process starts."""
    return tuple(_describe())


def sandbox_line() -> str:
    """Describe all layers on one line, those that do not hold with the reason."""
    return ", ".join(map(str, sandbox_layers()))


@cache
def sandbox(*, writing: bool = False) -> Sandbox:
    """Return the sandbox of this process's workers; with `writing` of those that write into a folder."""
    layers = Layers.NO_NEW_PRIVILEGES | Layers.LIMITS | Layers.PROCESSES
    version = landlock_version()
    if version:
        layers |= Layers.LANDLOCK
    if _can_drop_privileges() and not writing:  # the folder may be one that root alone writes into
        layers |= Layers.UNPRIVILEGED
    program, emulator_program = _program(writing, emulator=False), _program(writing, emulator=True)
    if program:
        layers |= Layers.SECCOMP
    return Sandbox(layers, version, program, emulator_program)


async def prepared_sandbox(*, writing: bool = False) -> Sandbox:
    """Return the `sandbox`, whose first making does not block the event loop; it logs the missing layers."""
    if writing not in _prepared:
        is_first = not _prepared
        _prepared[writing] = await trio.to_thread.run_sync(partial(sandbox, writing=writing))
        if is_first:
            await _warn_of_open_sandbox()
    return _prepared[writing]


async def _warn_of_open_sandbox() -> None:
    layers = await trio.to_thread.run_sync(sandbox_layers)
    if not all(layer.holds for layer in layers):
        logger.warning("the sandbox of models is weaker than it could be: %s", ", ".join(map(str, layers)))


_prepared: Final[dict[bool, Sandbox]] = {}


@cache
def landlock_version() -> int:
    """Return the version of the kernel's Landlock, 0 if there is none."""
    libc = ctypes.CDLL(None, use_errno=True)
    asked = (ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_long(_LANDLOCK_ASK_VERSION))
    return max(0, int(libc.syscall(*asked)))


def _describe() -> Iterator[SandboxLayer]:
    yield SandboxLayer("no-new-privs", True, "programs that give more rights")
    yield SandboxLayer("limits", True, "memory, descriptors, sizes of files and, but for root, processes")
    if os.geteuid() == 0:
        dropped = _can_drop_privileges()
        detail = "root's rights" if dropped else f"user {NOBODY} does not exist in this user namespace"
        yield SandboxLayer("nobody", dropped, detail)
    version = landlock_version()
    if version:
        covers = ("files", "TCP" if version >= 4 else "", "signals" if version >= 6 else "")
        yield SandboxLayer("Landlock", True, f"version {version}: {', '.join(filter(None, covers))}, ptrace")
    else:
        yield SandboxLayer("Landlock", False, "the kernel has none")
    reason = why_no_seccomp()
    detail = reason or "all but the system calls that interpreters need"
    yield SandboxLayer("seccomp", not reason, detail)


def _can_drop_privileges() -> bool:
    if os.geteuid() != 0:
        return False
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return False
    ranges = [tuple(map(int, line.split())) for line in lines]
    return any(first <= NOBODY < first + count for first, _, count in ranges)


def why_no_seccomp() -> str:
    """Return why there is no filter on this machine; empty if there is one."""
    number = _SECCOMP.get(os.uname().machine)
    if number is None:
        return f"not made for {os.uname().machine}"
    refuse = ctypes.c_uint32(0x50000)
    if ctypes.CDLL(None).syscall(number, _SECCOMP_GET_ACTION_AVAIL, 0, ctypes.byref(refuse)):
        return "the kernel has none"
    found = seccomp_binding()
    return found if isinstance(found, str) else ""


@cache
def seccomp_binding() -> ModuleType | str:
    """Import the binding of libseccomp, or return why it is missing."""
    try:
        import pyseccomp
    except ModuleNotFoundError:
        return "the package pyseccomp is missing"
    except (RuntimeError, OSError, AttributeError):
        return "libseccomp is missing: install libseccomp2"
    module: ModuleType = pyseccomp
    return module


def _program(writing: bool, *, emulator: bool) -> bytes:
    """Make the filter: whatever is not allowed answers EPERM. Empty if there can be none.

    That for an emulator allows executable memory, and threads of the same process.
    """
    if why_no_seccomp():
        return b""
    seccomp = seccomp_binding()
    assert not isinstance(seccomp, str)  # noqa: S101 - seen above
    rules = seccomp.SyscallFilter(seccomp.ERRNO(1))
    for name in (*ALLOWED, *(WRITING if writing else ())):
        if seccomp.resolve_syscall(seccomp.system_arch(), name) >= 0:  # not every machine has them all
            rules.add_rule(seccomp.ALLOW, name)
    if emulator:
        for name in ("mmap", "mprotect"):
            rules.add_rule(seccomp.ALLOW, name)
        rules.add_rule(
            seccomp.ALLOW, "clone", seccomp.Arg(0, seccomp.MASKED_EQ, _CLONE_THREAD, _CLONE_THREAD)
        )
        # Its flags lie in memory, which no filter sees; the C library takes clone where there is none.
        rules.add_rule(seccomp.ERRNO(errno.ENOSYS), "clone3")
    else:
        for name in ("mmap", "mprotect"):
            rules.add_rule(seccomp.ALLOW, name, seccomp.Arg(2, seccomp.MASKED_EQ, _EXECUTABLE, 0))
    for command in _fcntl_commands(writing):
        rules.add_rule(seccomp.ALLOW, "fcntl", seccomp.Arg(1, seccomp.EQ, command))
    for request in _ioctl_requests() if writing else ():
        rules.add_rule(seccomp.ALLOW, "ioctl", seccomp.Arg(1, seccomp.EQ, request))
    rules.add_rule(seccomp.ALLOW, "tgkill", seccomp.Arg(2, seccomp.EQ, _SIGABRT))
    return exported(rules)


def exported(rules: Any) -> bytes:  # noqa: ANN401 - the binding has no types
    """Return a filter of the binding's in the kernel's instructions."""
    with tempfile.TemporaryFile() as file:
        rules.export_bpf(file)
        file.seek(0)
        return file.read()


def _fcntl_commands(writing: bool) -> tuple[int, ...]:
    """Mapping the tensors' file makes another descriptor of it. Other commands seal and signal."""
    import fcntl  # where there is seccomp

    mapping = (fcntl.F_DUPFD_CLOEXEC,)
    return (*mapping, fcntl.F_GETFD, fcntl.F_SETFD, fcntl.F_GETFL) if writing else mapping


def _ioctl_requests() -> tuple[int, ...]:
    """Requests of Python to a file that it opens. Others send signals, too."""
    import termios

    return (termios.TCGETS, termios.FIOCLEX)
