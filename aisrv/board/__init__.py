"""Boards: their parts as values; the plan of their tasks; and those that come with the package."""

from aisrv.board.board import Board, Part
from aisrv.board.specs import (
    BOOT_COMMANDS,
    BOOT_MEMORIES,
    DEFAULT_ARENA,
    DEFAULT_BOOT,
    DEFAULT_EXTERNAL,
    DEFAULT_SPI,
    ENCODINGS,
    LARGEST_EXTERNAL,
    LARGEST_FLASH,
    LARGEST_INTERNAL,
    LONGEST_SERIAL,
    BoardError,
    BoardFileError,
    CommandsSpec,
    EngineSpec,
    FlashSpec,
    PortSpec,
    SensorSpec,
    SpiSpec,
    UsbProtocol,
)
from aisrv.board.task_plan import CHANNEL_ENDS, CORES, Plan, plan_of
from aisrv.board.tasks import End, Link, Servers, Task, TaskKind
from aisrv.board.user_tasks import TaskSpec
from aisrv.protocol.memories import FlashPath, Memory
from aisrv.values.settings.size import KIB

__all__ = [
    "BOOT_COMMANDS",
    "BOOT_MEMORIES",
    "CHANNEL_ENDS",
    "CORES",
    "DEFAULT_ARENA",
    "DEFAULT_BOOT",
    "DEFAULT_EXTERNAL",
    "DEFAULT_SPI",
    "ENCODINGS",
    "KIB",
    "LARGEST_EXTERNAL",
    "LARGEST_FLASH",
    "LARGEST_INTERNAL",
    "LONGEST_SERIAL",
    "Board",
    "BoardError",
    "BoardFileError",
    "CommandsSpec",
    "End",
    "EngineSpec",
    "FlashPath",
    "FlashSpec",
    "Link",
    "Memory",
    "Part",
    "Plan",
    "PortSpec",
    "SensorSpec",
    "Servers",
    "SpiSpec",
    "Task",
    "TaskKind",
    "TaskSpec",
    "UsbProtocol",
    "plan_of",
]
