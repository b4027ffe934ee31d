"""Reports of `aisrv exec --report`: the times of a real session, as a table and as JSON."""

import io
import json
from collections.abc import Awaitable, Callable

import pytest
import trio
from rich.console import Console

from aisrv import digits
from aisrv.addons.predict.profile.end_to_end import usb
from aisrv.addons.predict.time_report import print_reports, report_data
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command
from tests.support.benches.device_time import SpiHost, UsbHost, on_virtual_time, ticks, timed_device, workload

MODEL = digits.model_bytes()
IMAGE = digits.test_images()[0][0]


def session(*, as_json: bool) -> str:
    """What is printed of an upload and two inferences over USB, a second apart."""

    async def main() -> str:
        output = io.StringIO()
        async with timed_device(board=Board(spi=None)) as device:
            host = UsbHost(device)
            await host.set(Command.SET_MODEL_ARENA, MODEL)
            for _ in range(2):
                await host.cycle(IMAGE)
                await trio.sleep(1)
            print_reports([device], Console(file=output, width=100), as_json=as_json)
        return output.getvalue()

    return on_virtual_time(main)


def test_a_row_is_the_prediction_of_its_commands() -> None:
    async def main() -> None:
        async with timed_device(board=Board(spi=None)) as device:
            host = UsbHost(device)
            await host.set(Command.SET_MODEL_ARENA, MODEL)
            await host.cycle(IMAGE)
            await trio.sleep(1)
            assert device.time_account is not None
            rows = {row.command: row.spent for row in device.time_account.rows}
            for time in usb(workload(device, MODEL)):
                spent = rows[time.command.name]
                found = (spent.link, spent.tasks + spent.load, spent.inference)
                assert [round(part * 6) for part in found] == [
                    round(part * 6) for part in (time.link, time.device, time.inference)
                ]

    on_virtual_time(main)


def test_the_table_has_a_row_for_each_kind_of_command() -> None:
    lines = session(as_json=False).splitlines()
    assert lines[0].startswith("On the chip this takes 1.7")
    rows = {line.split()[1]: line.split()[2:] for line in lines if line.startswith(" usb")}
    assert list(rows) == ["SET_MODEL_ARENA", "SET_INPUT_TENSOR", "START_INFER", "GET_OUTPUT_TENSOR"]
    assert rows["START_INFER"] == ["2", "0.038", "0.002", "0.828", "0.868"]


def test_json_has_the_same_and_the_host_s_second() -> None:
    data = json.loads(session(as_json=True))
    assert data["serial"] is None
    assert data["late"] == 0
    total = data["total"]
    assert total["low"] < total["ticks"] < total["high"]
    assert 200_000_000 < total["host"] < 201_000_000  # it rests a second before, and one between
    parts = ("link", "tasks", "load", "flash", "inference")
    assert round(sum(total[part] for part in parts) - total["ticks"], 3) == 0
    assert [row["count"] for row in data["commands"]] == [1, 2, 2, 2]


def spi_rows(commands: Callable[[SpiHost], Awaitable[object]]) -> tuple[dict[str, dict[str, float]], int]:
    """The rows of what a master sends back to back, and the ticks from begin to end."""

    async def main() -> tuple[dict[str, dict[str, float]], int]:
        async with timed_device(MODEL) as device:
            begin = ticks(device)
            await commands(SpiHost(device, None))
            assert device.time_account is not None
            rows = report_data(None, device.time_account)["commands"]
            assert {row["port"] for row in rows} == {"spi"}
            return {row["command"]: row for row in rows}, ticks(device) - begin

    return on_virtual_time(main)


def test_a_command_over_spi_has_link_tasks_and_inference_apart() -> None:
    rows, _ = spi_rows(lambda host: host.infer())
    infer = rows["START_INFER"]
    assert infer["link"] == 120
    assert infer["inference"] == 41_390
    # What START_INFER itself, GET_OUTPUT_TENSOR of 10 bytes and GET_TIMINGS of 6 operators take on channels.
    output, timings = (2 + 2 * 4 + 2 * 4) * 5 + 96, (2 + 6 * 4) * 5 + 96
    assert round(infer["tasks"] * 6) == 663 + (484 + 242 + output) + (484 + 242 + timings)
    assert infer["load"] == infer["flash"] == 0
    assert infer["low"] < infer["ticks"] < infer["high"]


def test_rows_of_a_master_that_always_polls_add_up_to_what_it_took() -> None:
    async def cycle(host: SpiHost) -> None:
        await host.set(Command.SET_INPUT_TENSOR, IMAGE)
        await host.infer()
        await host.read(Command.GET_OUTPUT_TENSOR, 10)

    rows, taken = spi_rows(cycle)
    assert list(rows) == ["GET_STATUS", "SET_INPUT_TENSOR", "START_INFER", "GET_OUTPUT_TENSOR"]
    assert rows["SET_INPUT_TENSOR"]["link"] == 5240  # 64 bytes and a command, and chip select
    assert sum(row["ticks"] for row in rows.values()) == pytest.approx(taken, abs=2)
    before, after = (
        600,
        600 + 330,
    )  # a poll that began while it was BUSY, its rest after the sample, and one more
    assert rows["GET_STATUS"]["link"] == rows["GET_STATUS"]["ticks"] < before + 2 * after


@pytest.mark.plain_time("it says itself that the device is not in device time")
def test_a_device_without_device_time_has_no_report() -> None:
    async def main() -> str:
        output = io.StringIO()
        async with open_device(runner=inline) as device:
            print_reports([device], Console(file=output), as_json=False)
        return output.getvalue()

    assert on_virtual_time(main) == ""


def test_a_program_without_commands_is_told() -> None:
    async def main() -> str:
        output = io.StringIO()
        async with timed_device() as device:
            print_reports([device], Console(file=output), as_json=False)
        return output.getvalue()

    assert on_virtual_time(main) == "The program sent no command.\n"
