"""Signals that a process heeds: those that were not ignored when it started.

The shell of a script ignores SIGINT for what it starts in the background, and `nohup` ignores SIGHUP: what
Ctrl-C or a hangup ends is the script, and what lies behind it goes on.
"""

import signal


def heeded(*numbers: signal.Signals) -> tuple[signal.Signals, ...]:
    """Return those of some signals for which a process may have a handler."""
    return tuple(number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN)
