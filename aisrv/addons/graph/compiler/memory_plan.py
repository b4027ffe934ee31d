"""The memory plan: the bytes of banks for each block. Static ones come first."""

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

from aisrv.addons.graph.errors import Messages, Place
from aisrv.addons.graph.platform.values import Bank
from aisrv.addons.graph.text.sections import TextSection


class Address(NamedTuple):
    """An offset id and a byte index in it."""

    offset_id: int
    byte: int


@dataclass(frozen=True, slots=True)
class Block:
    """A block of memory as it was placed, for the report and the drawing."""

    what: str
    vid: int
    start: int
    size: int
    is_working: bool = False


@dataclass(frozen=True, slots=True)
class BankUse:
    """Use of a bank by a graph, in bytes."""

    bank: Bank
    static: int
    working: int

    @property
    def used(self) -> int:
        """Static and working bytes."""
        return self.static + self.working

    @property
    def free(self) -> int:
        return self.bank.size - self.used


def round4(size: int) -> int:
    return (size + 3) & ~3


class MemoryPlan:
    """Places blocks in banks, one after the other. Errors name the line that asked for a block."""

    def __init__(self, banks: list[Bank], messages: Messages) -> None:
        self.banks = {bank.vid: bank for bank in reversed(banks)}
        self.rows = banks
        self.messages = messages
        self.static: dict[int, int] = {}
        self.working: dict[int, int] = {}
        self.blocks: list[Block] = []
        self._full: set[int] = set()

    def place(self, what: str, vid: int, size: int, place: Place, alignment: int = 4) -> Address:
        """Take static bytes of a bank."""
        bank = self._bank(vid, place)
        if bank is None:
            return Address(0, 0)
        start = -(-self.static.get(vid, 0) // alignment) * alignment
        self.static[vid] = start + round4(size)
        if size:
            self.blocks.append(Block(what, vid, start, round4(size)))
        self._check(bank, place)
        return Address(bank.offset_id, bank.base + start)

    def overlay(self, what: str, vid: int, size: int, place: Place, alignment: int = 4) -> Address:
        """Take working bytes behind the static part of a bank; all such blocks start there."""
        bank = self._bank(vid, place)
        if bank is None:
            return Address(0, 0)
        static = self.static.get(vid, 0)
        start = -(-static // alignment) * alignment
        end = start + round4(size)
        self.working[vid] = max(self.working.get(vid, 0), end - static)
        if size:
            self.blocks.append(Block(what, vid, start, round4(size), is_working=True))
        self._check(bank, place)
        return Address(bank.offset_id, bank.base + start)

    def use(self) -> list[BankUse]:
        """Return the use of each bank, in the order of the procmap."""
        rows = []
        for bank in self.rows:
            is_first = self.banks[bank.vid] is bank
            taken = (self.static.get(bank.vid, 0), self.working.get(bank.vid, 0)) if is_first else (0, 0)
            rows.append(BankUse(bank, *taken))
        return rows

    def fill(self) -> bytes:
        """Return the fill of the banks of each offset id 0 to 7 with static data: 255 would be full."""
        fills = []
        for offset_id in range(8):
            used = [use for use in self.use() if use.bank.offset_id == offset_id]
            static = sum(use.static for use in used)
            fills.append(min(255, 255 * static // (1 + sum(use.bank.size for use in used))))
        return bytes(fills)

    def _bank(self, vid: int, place: Place) -> Bank | None:
        bank = self.banks.get(vid)
        if bank is None:
            names = list(dict.fromkeys(str(bank.vid) for bank in self.rows))
            self.messages.error(place, f"unknown memory bank VID {vid}, only {', '.join(names)}")
        return bank

    def _check(self, bank: Bank, place: Place) -> None:
        used = self.static.get(bank.vid, 0) + self.working.get(bank.vid, 0)
        if used > bank.size and bank.vid not in self._full:
            self._full.add(bank.vid)
            self.messages.error(
                place, f"the memory bank with VID {bank.vid} is full: {used} of {bank.size} bytes are needed"
            )


def split_banks(banks: list[Bank], control: TextSection, messages: Messages) -> list[Bank]:
    """Split memory banks as `memory_mapping id new start length` say; bytes below the first piece stay."""
    found = list(banks)
    pieces: dict[int, list[tuple[int, int]]] = {}
    for statement in control.every("memory_mapping"):
        vid, new, start, length = (int(value) for value in statement.values)
        bank = next((each for each in banks if each.vid == vid), None)
        if bank is None:
            messages.error(statement.place, f"unknown memory bank VID {vid}")
        elif new < 0 or any(each.vid == new for each in found):
            messages.error(statement.place, f"VID {new} exists already, or is out of range")
        elif start < 0 or length < 1 or start + length > bank.size or start % 4:
            messages.error(
                statement.place, f"VID {vid} has {bank.size} bytes: no {length} from {start}, a multiple of 4"
            )
        elif any(start < end and first < start + length for first, end in pieces.get(vid, [])):
            messages.error(statement.place, f"VID {new} overlaps another piece of VID {vid}")
        else:
            pieces.setdefault(vid, []).append((start, start + length))
            found.append(dataclasses.replace(bank, vid=new, size=length, base=start))
            lowest = min(first for first, _ in pieces[vid])
            at = next(index for index, each in enumerate(found) if each.vid == vid)
            found[at] = dataclasses.replace(found[at], size=lowest)
    return found
