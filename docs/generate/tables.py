"""The tables by the names that pages call them by."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from aisrv.cli.main import main as aisrv
from docs.generate.benchmark_results import missing_table, result_names, result_table
from docs.generate.code_map import code_map
from docs.generate.command_lines import linux_commands, program
from docs.generate.device_costs import device_cost_table
from docs.generate.kernel_operators import operator_table
from docs.generate.lib_xcore_names import lib_xcore_tables
from docs.generate.settings_keys import board_keys, pack_keys, suite_keys, sweep_keys
from docs.generate.wires import (
    acquire_command_table,
    command_table,
    descriptor_tables,
    dissector_tables,
    flash_command_table,
    flash_failure_table,
    ioserver_table,
    jacdac_tables,
    own_command_table,
    sensor_tables,
    spec_table,
    spi_table,
    status_table,
)
from flash_server.cli import main as aisrv_flash
from host_tools.cli import main as aisrv_host

TABLES: Final[Mapping[str, Callable[[], str]]] = {
    "aisrv": partial(program, aisrv, "aisrv"),
    "aisrv-host": partial(program, aisrv_host, "aisrv-host"),
    "aisrv-flash": partial(program, aisrv_flash, "aisrv-flash"),
    "linux-commands": partial(linux_commands, aisrv, "aisrv"),
    "board-keys": board_keys,
    "pack-keys": pack_keys,
    "suite-keys": suite_keys,
    "sweep-keys": sweep_keys,
    "commands": command_table,
    "status": status_table,
    "spec": spec_table,
    "descriptors": descriptor_tables,
    "ioserver": ioserver_table,
    "spi": spi_table,
    "own-commands": own_command_table,
    "dissector": dissector_tables,
    "sensor-registers": sensor_tables,
    "acquire-commands": acquire_command_table,
    "flash-commands": flash_command_table,
    "flash-failures": flash_failure_table,
    "jacdac": jacdac_tables,
    "code-map": code_map,
    "kernel-operators": operator_table,
    "device-costs": device_cost_table,
    "lib-xcore": lib_xcore_tables,
    "benchmarks-without-figures": missing_table,
    **{f"benchmark-{name}": partial(result_table, name) for name in result_names()},
}
