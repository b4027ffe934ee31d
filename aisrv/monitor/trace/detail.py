"""How much of a run a trace has."""

from enum import IntEnum


class Detail(IntEnum):
    """Each has what those before it have."""

    COMMANDS = 1
    """Commands of clients, traps, transfers over USB and SPI, LEDs."""
    WAITS = 2
    """What cores wait for, and who wakes them."""
    RUNS = 3
    """Runs of tokens, as arrows from output to input."""
    TOKENS = 4
    """Every verb of a core, and the tokens that wait in each channel end."""
