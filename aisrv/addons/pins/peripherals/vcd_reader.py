"""Signals of one bit in VCD files (IEEE 1364, section 18), as simulators and analyzers write them.

What a file declares is read by pyvcd. Its changes are millions in a few megabytes: they are read here, those
of one signal, and of several at one time the last.
"""

import re
from collections.abc import Iterable
from functools import partial
from io import BytesIO
from typing import Final

from vcd.reader import Token, TokenKind, tokenize

from aisrv.addons.pins.peripherals.signal_changes import LEVELS, SignalChanges, Signals
from aisrv.xcore.clock import TICKS_PER_SECOND

LARGEST_HEADER: Final = 1 << 20
"""Bytes of what a file declares."""
_LONGEST_NAMES: Final = 4 << 20
"""Characters of the names of all signals, each with those of its scopes."""
_MOST_TIMES: Final = 1 << 20
"""Times at which something changes: they take less than a second."""
_END: Final = re.compile(rb"\$enddefinitions\s+\$end(?!\S)")
_UNITS: Final = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9, "ps": 10**12, "fs": 10**15}
_IN_CHANGES: Final = frozenset(kind for kind in TokenKind if kind.name.startswith("CHANGE_"))
_CHANGES: Final = rb"""(?x:
    (?: \s* \# [0-9]+ (?:\.0*)? (?=\s+\#) ){0,1000}       # times at which nothing changes
    (?: \s* \# ([0-9]+) (?:\.0*)? (?!\S) )?                # the time
    (?: \s* (?:
        ([01xXzZuUwWhHlL-]) %s                              # the signal
      | [01xXzZuUwWhHlL-] [!-~]+                            # others, of one bit
      | [bB] [01xXzZuUwWhHlL-]* \s+ [!-~]+                  # vectors
      | [rRsS] \S* \s+ [!-~]+                               # real numbers and texts
      | \$(?:dumpvars|dumpall|dumpon|dumpoff|end)
      | \$comment(?=\s) (?s:.*?) \s\$end
    ) (?!\S) ){0,1000}
    \s*
)"""


def read_vcd(content: bytes) -> Signals:
    """Return the signals of a file; ValueError, or what pyvcd raises, where it is none."""
    end = _END.search(content)
    size = len(content) if end is None else end.end()
    if size > LARGEST_HEADER:
        raise ValueError(f"what it declares takes {size:,} bytes, at most {LARGEST_HEADER:,} are read")
    numerator, denominator = TICKS_PER_SECOND, 10**9
    names: dict[str, str] = {}
    scopes: list[str] = []
    left = _LONGEST_NAMES
    for token in _declarations(tokenize(BytesIO(content[:size]))):
        if token.kind is TokenKind.TIMESCALE:
            numerator = token.timescale.magnitude * TICKS_PER_SECOND
            denominator = _UNITS[token.timescale.unit.value]
        elif token.kind is TokenKind.SCOPE:
            scopes.append(token.scope.ident)
        elif token.kind is TokenKind.UPSCOPE:
            scopes.pop()
        elif token.kind is TokenKind.VAR and token.var.size == 1:
            left -= sum(map(len, scopes)) + len(scopes) + len(token.var.reference)
            if left < 0:
                raise ValueError("the names of its signals are too long")
            names[".".join((*scopes, token.var.reference))] = token.var.id_code
    return {
        name: partial(_changes, content, size, code.encode(), numerator, denominator)
        for name, code in names.items()
    }


def _declarations(tokens: Iterable[Token]) -> Iterable[Token]:
    """Yield the tokens of what a file declares; ValueError where changes stand among them."""
    token = None
    for token in tokens:
        if token.kind in _IN_CHANGES:
            raise ValueError("changes before $enddefinitions $end")
        yield token
    if token is not None and token.kind is not TokenKind.ENDDEFINITIONS:
        raise ValueError("it has no $enddefinitions $end")


def _changes(content: bytes, at: int, code: bytes, numerator: int, denominator: int) -> SignalChanges:
    """Return the changes of a signal, which begin at that byte; a unit is as many ticks as the fraction."""
    found = SignalChanges()
    tick = last = 0
    for number, step in enumerate(re.compile(_CHANGES % re.escape(code)).finditer(content, at)):
        if step.start() != at:
            break
        if number == _MOST_TIMES:
            raise ValueError(f"it changes at more than {_MOST_TIMES:,} times")
        at = step.end()
        time, level = step.groups()
        if time is not None:
            tick, rest = divmod(int(time) * numerator, denominator)
            if rest:  # to the next, of two to the even one
                tick += 2 * rest > denominator or (2 * rest == denominator and tick & 1)
            if tick < last:
                raise ValueError("the time goes back")
            last = tick
        if level is not None:
            found.add(tick, LEVELS[level.decode()])
    if at < len(content):
        raise ValueError(f"no change of a signal at byte {at:,}")
    return found
