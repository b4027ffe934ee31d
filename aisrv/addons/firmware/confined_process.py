"""Starting a process with the rights of a tile's program, by the launcher."""

import os
import subprocess
from collections.abc import Mapping, Sequence

from aisrv.addons.firmware.compiler import launcher
from aisrv.addons.firmware.confinement import Confinement
from aisrv.addons.firmware.errors import FirmwareError


def start_confined(
    confinement: Confinement,
    command: Sequence[str],
    *,
    env: Mapping[str, str],
    files: Sequence[int] = (),
    is_in_group: bool = True,
    stdout: int | None = None,
) -> "subprocess.Popen[bytes]":
    """Start a command that is held by all layers from its first instruction on.

    It gets `files` as they are numbered here, and is the first of a group of its own but where a debugger
    needs the terminal. Raises FirmwareError where a layer does not hold, or there is no such program.
    """
    rights = os.memfd_create("rights")
    reads, report = os.pipe()
    try:
        os.pwrite(rights, bytes(confinement), 0)
        process = subprocess.Popen(
            [launcher(), str(rights), str(report), *command],
            env=env,
            pass_fds=(*files, rights, report),
            process_group=0 if is_in_group else None,
            stdout=stdout,
        )
    except OSError as error:
        os.close(reads)
        raise FirmwareError(f"{error.filename}: {error.strerror}") from None
    except FirmwareError:
        os.close(reads)
        raise
    finally:
        os.close(rights)
        os.close(report)
    with os.fdopen(reads, "rb") as told:
        problem = told.read()
    if problem:
        process.wait()
        raise FirmwareError(problem.decode(errors="replace"))
    return process
