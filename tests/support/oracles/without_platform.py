"""Imports all modules and asks all commands for help, without what Python lacks on another system.

    python -m tests.support.oracles.without_platform windows

writes a line for each module and each command that fails.
"""

import contextlib
import importlib
import importlib.abc
import os
import pkgutil
import select
import signal
import socket
import sys
from collections.abc import Iterator, Mapping
from types import ModuleType
from typing import Final

import click
from click.testing import CliRunner

PACKAGES: Final = ("aisrv", "phy", "flash_server", "host_tools")
FIRST: Final = (
    "distributed",
    *("asyncio", "ctypes.util", "flatbuffers", "jinja2", "logging.handlers", "msgspec", "multiprocessing"),
    *("rich", "subprocess", "tempfile", "tflite", "usb.core", "usb.backend.libusb1", "vcd"),
    *("rich.console", "rich.progress", "rich.live", "numpy", "trio"),
)
"""Modules that choose by themselves what they need of a system, and are imported with all of it."""
PROGRAMS: Final = ("aisrv.cli.main", "flash_server.cli", "host_tools.cli")

MODULES: Final[Mapping[str, frozenset[str]]] = {
    "windows": frozenset(
        ("fcntl", "grp", "posix_ipc", "pty", "pwd", "pyseccomp", "resource", "spidev", "termios", "tty")
    ),
    "macos": frozenset(("pyseccomp", "spidev")),
}
NAMES: Final[Mapping[str, Mapping[ModuleType, str]]] = {
    "windows": {
        os: "MFD_ALLOW_SEALING MFD_CLOEXEC O_CLOEXEC O_DIRECTORY O_NOFOLLOW O_NONBLOCK P_PIDFD WIFEXITED"
        " chown eventfd fchdir fchmod fork geteuid getpgid getuid killpg memfd_create mkfifo openpty"
        " pidfd_open pipe2 posix_spawn sched_getaffinity sched_setaffinity setsid statvfs sysconf tcgetpgrp"
        " uname wait4 waitid",
        socket: "AF_NETLINK AF_UNIX CMSG_LEN SCM_RIGHTS SO_PEERCRED recv_fds send_fds",
        signal: "SIGALRM SIGCHLD SIGCONT SIGHUP SIGKILL SIGPIPE SIGQUIT SIGSTOP SIGSYS SIGTSTP SIGUSR1"
        " SIGUSR2 SIGXCPU alarm pause pthread_sigmask setitimer sigwait",
        select: "epoll poll",
    },
    "macos": {
        os: "MFD_ALLOW_SEALING MFD_CLOEXEC P_PIDFD copy_file_range eventfd memfd_create pidfd_open pipe2"
        " sched_getaffinity sched_setaffinity",
        socket: "AF_NETLINK SO_PEERCRED",
        select: "epoll",
    },
}


class _Missing(importlib.abc.MetaPathFinder):
    """Finds nothing: what is asked for is not there."""

    def __init__(self, names: frozenset[str]) -> None:
        self._names = names

    def find_spec(self, fullname: str, *_: object) -> None:
        if fullname.partition(".")[0] in self._names:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)


def remove(system: str) -> None:
    """Take away what a system lacks. `sys.platform` stays: other packages choose by it."""
    for name in FIRST:
        importlib.import_module(name)
    for name in MODULES[system]:
        sys.modules.pop(name, None)
    sys.meta_path.insert(0, _Missing(MODULES[system]))
    for module, names in NAMES[system].items():
        for name in names.split():
            with contextlib.suppress(AttributeError):  # not in each version of Python
                delattr(module, name)


def modules() -> Iterator[str]:
    """The names of all modules but those that run a program, stand in for others', or are libraries in C."""
    for name in PACKAGES:
        package = importlib.import_module(name)
        yield name
        for module in pkgutil.walk_packages(package.__path__, f"{name}.", onerror=lambda _: None):
            if module.name.rpartition(".")[2] not in {"__main__", "sitecustomize", "_kernels"}:
                yield module.name


def failures(system: str) -> Iterator[str]:
    """Modules and commands that fail, each with the error."""
    for name in modules():
        try:
            importlib.import_module(name)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            if package in MODULES[system] or package in PACKAGES:  # others are extras
                yield f"{name}: {error}"
        except Exception as error:
            yield f"{name}: {type(error).__name__}: {error}"
    for name in PROGRAMS:
        yield from _without_help(importlib.import_module(name).main, ())


def _without_help(command: click.Command, words: tuple[str, ...]) -> Iterator[str]:
    done = CliRunner().invoke(command, ["--help"])
    if done.exit_code or not done.stdout.startswith("Usage: "):
        yield f"{command.name} {' '.join(words)} --help: {done.exception!r}"
    if isinstance(command, click.Group):
        context = click.Context(command)
        for word in command.list_commands(context):
            inner = command.get_command(context, word)
            assert inner is not None
            yield from _without_help(inner, (*words, word))


if __name__ == "__main__":
    remove(sys.argv[1])
    for failure in failures(sys.argv[1]):
        print(failure)
    print("end")
