"""Kills processes that write a chip file, and checks after each that every page and sector is old or new.

    python -m tests.support.oracles.killed_writer FILE KILLS torn|whole [SEED [OTHER_NAME...]]

Each writer opens the file by one of its names, and afterwards it is read by another. Prints how many writers
were killed, how many of them within a write (the journal finished it), and in how many cases the file was
neither as before the write under way nor as after it.
"""

import mmap
import os
import random
import signal
import sys
import time
from pathlib import Path
from typing import NoReturn

from flash_server.chip.nor import Nor
from flash_server.chip.part import Erase, FlashPart
from flash_server.chip.storage import FileStorage, MemoryStorage, Storage

PART = FlashPart("small", 32768, 0xC22817, erases=(Erase(0x20, 4096, 0), Erase(0x52, 16384, 0)))
LONGEST_LIFE = 0.004


class Torn:
    """Storage that writes to the file in two halves and has no journal: the check must notice."""

    repaired = False

    def __init__(self, path: str, size: int) -> None:
        self.size = size
        self._file = os.open(path, os.O_RDWR)

    def read(self, address: int, size: int) -> bytes:
        return os.pread(self._file, size, address)

    def write(self, address: int, data: bytes) -> None:
        half = len(data) // 2
        os.pwrite(self._file, data[:half], address)
        os.pwrite(self._file, data[half:], address + half)

    def read_registers(self) -> bytes | None:
        return None

    def write_registers(self, registers: bytes) -> None:
        raise NotImplementedError

    def close(self) -> None:
        os.close(self._file)


def operate(nor: Nor, dice: random.Random) -> None:
    """One step of a known sequence: a page with other bytes in both its halves, or a sector erase."""
    if dice.random() < 0.3:
        nor.erase(PART.erases[0], dice.randrange(PART.size))
    else:
        nor.program(dice.randrange(0, PART.size, 256), dice.randbytes(128) + dice.randbytes(128))
    nor.finish()


def write_until_killed(storage: Storage, seed: int, started: memoryview) -> NoReturn:
    """Do the steps, and tell of each before it is done."""
    nor, dice, step = Nor(PART, storage), random.Random(seed), 0
    while True:
        step += 1
        started[0] = step
        operate(nor, dice)


def after(before: bytes, seed: int, steps: int) -> tuple[bytes, bytes]:
    """The bytes before and after the last of so many steps."""
    memory = MemoryStorage(PART.size)
    for address in range(0, PART.size, 4096):
        memory.write(address, before[address : address + 4096])
    nor, dice = Nor(PART, memory), random.Random(seed)
    old = before
    for step in range(steps):
        if step == steps - 1:
            old = memory.read(0, PART.size)
        operate(nor, dice)
    return old, memory.read(0, PART.size)


def main(path: str, kills: int, kind: str, first_seed: int = 0, *others: str) -> None:
    names = (path, *others)
    FileStorage(path, PART.size).close()
    opened: type[FileStorage] | type[Torn] = FileStorage if kind == "whole" else Torn
    # One store of 8 bytes, which no kill can tear: struct.pack_into clears them before it writes.
    started = memoryview(mmap.mmap(-1, 8)).cast("Q")
    dice = random.Random(first_seed + 1)
    repaired = mixed = 0
    for seed in range(first_seed, first_seed + kills):
        before = Path(path).read_bytes()
        started[0] = 0
        child = os.fork()
        if not child:
            write_until_killed(opened(dice.choice(names), PART.size), seed, started)
        while not started[0]:
            os.sched_yield()
        time.sleep(dice.uniform(0, LONGEST_LIFE))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        storage = opened(dice.choice(names), PART.size)
        repaired += storage.repaired
        found = storage.read(0, PART.size)
        storage.close()
        mixed += found not in after(before, seed, started[0])
    print(kills, repaired, mixed)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3], int(sys.argv[4]) if sys.argv[4:] else 0, *sys.argv[5:])
