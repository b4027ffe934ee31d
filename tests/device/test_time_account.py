"""Loads of parameters from flash during a run, in device time: XC_ld operators take what their reads took."""

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TypeVar

import pytest
import trio
from flatbuffers import flexbuffers
from tflite import BuiltinOperator

from aisrv.board import Board, EngineSpec, FlashSpec
from aisrv.device.device import open_device
from aisrv.inference.interpreter import TensorLayout
from aisrv.model.values import Quantization, Tensor, TensorType
from aisrv.model.writer import Network, NetworkOperator
from aisrv.protocol.commands import Command
from aisrv.values.settings.size import Size
from flash_server.chip.part import MX25R3235F
from flash_server.chip.storage import FileStorage
from flash_server.image.build import DataPartition, EngineImage
from tests.support.benches.device_time import UsbHost, on_virtual_time

T = TypeVar("T")
BOOT_BYTES = Size(1 << 16)


class LoadsAlone:
    """Runs a model whose one operator loads its output from flash, as XMOS's interpreter is no package."""

    def __init__(self, size: int) -> None:
        self.layout = TensorLayout((16, size), (size,))
        self._memory = memoryview(bytearray(self.layout.nbytes))

    def input(self, number: int) -> memoryview:
        return self.layout.views(self._memory)[0][number]

    def output(self, number: int) -> memoryview:
        return self.layout.views(self._memory)[1][number]

    async def compute(self, function: Callable[[], T]) -> T:
        return function()

    async def load(self, model: object, arena_bytes: int, in_place: object = None) -> None:
        """Take any model."""

    async def invoke(self) -> None:
        """Compute nothing: the engine has read the parameters."""

    async def invoke_counted(self) -> int:
        """Fill no lines: nothing runs in place."""
        return 0

    async def reset_variables(self) -> None:
        """Have none."""

    async def close(self) -> None:
        """Have nothing to give back."""


def model_of_load(size: int) -> bytes:
    unit = Quantization((1.0,), (0,))
    load = NetworkOperator(
        BuiltinOperator.CUSTOM,
        ("input",),
        ("output",),
        custom_code="XC_ld_flash",
        custom_options=bytes(flexbuffers.Dumps({"a": 0, "s": [size], "t": 0})),
    )
    sizes = {"input": 16, "output": size}
    tensors = tuple(Tensor(name, (1, nbytes), TensorType.INT8, unit) for name, nbytes in sizes.items())
    return bytes(Network(tensors, (load,), ("input",), ("output",)))


def run(tmp_path: Path, size: int, runs: int) -> dict[str, tuple[Fraction, Fraction, Fraction]]:
    """Ticks in flash, in inferences and in all, by command, of a host that sets an input and infers."""
    path = tmp_path / "chip.bin"
    with FileStorage(path, MX25R3235F.size) as storage:
        storage.write(BOOT_BYTES, DataPartition((EngineImage(parameters=bytes(range(256)) * 40),)).build())
    flash = FlashSpec(MX25R3235F, path=path, boot_bytes=BOOT_BYTES)
    board = Board(engines=(EngineSpec(),), flashes=(flash,), spi=None)

    async def main() -> dict[str, tuple[Fraction, Fraction, Fraction]]:
        runner = LoadsAlone(size)
        async with open_device(board, runner=lambda _log, **_: runner, device_time=True) as device:
            device.usb.reset()
            device.usb.configure(1)
            await device.load_model(model_of_load(size))
            await trio.sleep(1)
            host = UsbHost(device)
            for _ in range(runs):
                await host.set(Command.SET_INPUT_TENSOR, bytes(16))
                await host.set(Command.START_INFER, b"")
                await host.read(Command.GET_ID)
            assert bytes(runner.input(1)) == (bytes(range(256)) * 40)[:size]
            assert device.time_account is not None
            spent = {row.command: row.spent for row in device.time_account.rows}
            return {name: (each.flash, each.inference, each.device) for name, each in spent.items()}

    return on_virtual_time(main)


@pytest.mark.parametrize("size", [1_000, 4_000])
def test_a_run_takes_the_reads_of_its_loads_and_no_prediction_of_them(tmp_path: Path, size: int) -> None:
    rows = run(tmp_path, size, 2)
    flash, inference, taken = rows["START_INFER"]
    assert flash == Fraction(2 * (2_272 + 142 * size), 6)
    assert inference == 0
    assert rows["SET_INPUT_TENSOR"][0] == rows["GET_ID"][0] == 0
    channel = 2 * Fraction(20 * -(-size // 4), 6)  # the words on their way from the flash server
    assert flash + channel < taken < flash + channel + 10_000
