"""Interrupts every command of programs by Ctrl-C on a terminal of its own, and prints exit codes and output.

    python -m tests.support.oracles.interrupted_commands aisrv.cli.main host_tools.cli

A command does no work of its own here: where it would begin it says so, and waits in a task of a nursery.
"""

import gc
import json
import os
import pty
import sys
import termios
from collections.abc import Sequence
from importlib import import_module

import click
import trio

from tests.support.command_tree import commands_of
from tests.support.forking_server import quick_end

READY = b"at work\r\n"
CTRL_C = b"\x03"


async def wait() -> None:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.sleep_forever)
        sys.stdout.write("at work\n")
        sys.stdout.flush()
        await trio.sleep_forever()


def interrupted(program: click.Group, path: tuple[str, ...], command: click.Command) -> tuple[int, str]:
    """Run a command in a child; return its exit code, and what it prints after Ctrl-C."""
    child, terminal = pty.fork()
    if not child:
        without_echo = termios.tcgetattr(0)
        without_echo[3] &= ~termios.ECHO
        termios.tcsetattr(0, termios.TCSANOW, without_echo)
        command.params, command.callback = [], lambda: trio.run(wait)
        sys.argv = [str(program.name), *path]
        with quick_end():
            program()
    output = read(terminal, READY)
    os.write(terminal, CTRL_C)
    output += read(terminal, None)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), output.replace(READY, b"").decode()


def read(terminal: int, until: bytes | None) -> bytes:
    """What comes from a terminal until a text has come, or until nobody has it open."""
    output = b""
    while until is None or until not in output:
        try:
            chunk = os.read(terminal, 65536)
        except OSError:  # EIO: how Linux says that the other side is closed
            break
        if not chunk:
            break
        output += chunk
    return output


def main(modules: Sequence[str]) -> None:
    programs = {module: import_module(module).main for module in modules}
    commands = {module: list(commands_of(program)) for module, program in programs.items()}
    gc.freeze()  # children need not look through all modules when they end
    print(
        json.dumps(
            {
                module: {
                    " ".join(path): interrupted(programs[module], path, command) for path, command in found
                }
                for module, found in commands.items()
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1:])
