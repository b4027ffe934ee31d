"""What a device in device time tells when it ends."""

import pytest

from aisrv.board import Board
from aisrv.cli.serving import print_lateness
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from tests.support.benches.device_time import on_virtual_time


@pytest.mark.parametrize(
    ("late", "told"),
    [
        (0, ""),
        (1234, "aisrv: L7 was late 1,234 times, by 2.5 ms at most: this machine was slower than the chip\n"),
    ],
)
def test_lateness_is_told_where_there_was_any(
    late: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    async def main() -> None:
        async with open_device(Board(serial="L7"), runner=inline, device_time=True) as device:
            assert device.time_account is not None
            device.time_account.timeline.late = late
            device.time_account.timeline.latest = 250_000
            print_lateness(device, 0)

    on_virtual_time(main)
    assert capsys.readouterr().err == told


def test_a_device_without_device_time_is_never_late(capsys: pytest.CaptureFixture[str]) -> None:
    async def main() -> None:
        async with open_device(runner=inline) as device:
            print_lateness(device, 0)

    on_virtual_time(main)
    assert capsys.readouterr().err == ""
