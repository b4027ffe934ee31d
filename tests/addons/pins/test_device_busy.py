"""Device time on a live clock beside six busy loops: pins change at the ticks of a virtual clock.

So do cores see them. The kinds of peripherals are the product's.
"""

from collections.abc import Awaitable, Callable, Iterator
from typing import Any, NamedTuple

import pytest
import trio
import trio.testing

from aisrv.addons.pins.peripherals.button import Button
from aisrv.addons.pins.peripherals.i2c_memory import I2cMemory
from aisrv.addons.pins.peripherals.i2c_target import SPEEDS, I2cTarget
from aisrv.addons.pins.peripherals.i2s_clock import I2sClock
from aisrv.addons.pins.peripherals.i2s_format import I2sPins
from aisrv.addons.pins.peripherals.i2s_sink import I2sSink
from aisrv.addons.pins.peripherals.i2s_source import I2sSource
from aisrv.addons.pins.peripherals.led import Led
from aisrv.addons.pins.peripherals.parallel_camera import BITS, Blanking, CameraPins, ParallelCamera
from aisrv.addons.pins.peripherals.spi_controller import SpiController
from aisrv.addons.pins.peripherals.spi_target import SpiMemory, SpiPins, SpiTarget
from aisrv.addons.pins.peripherals.stimulus import Stimulus
from aisrv.addons.pins.peripherals.uart_format import UartFormat
from aisrv.addons.pins.peripherals.uart_receiver import UartReceiver
from aisrv.addons.pins.peripherals.uart_transmitter import UartTransmitter
from aisrv.addons.pins.specs import PeripheralKind
from aisrv.board.toml_file import parse_board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.protocol.commands import Command
from aisrv.xcore.clock import TICKS_PER_SECOND
from aisrv.xcore.core import current_core
from aisrv.xcore.node import Node, open_node
from aisrv.xcore.ports.pin import Pin
from aisrv.xcore.select import select
from aisrv.xcore.timed.classes import TIMED
from tests.support.benches.pin_bench import Line, Runs
from tests.support.busy_machine import busy_machine
from tests.support.peers.i2c_controller import I2cController

MS = 100_000
SECONDS = 90  # of this machine, for one run


@pytest.fixture(scope="module", autouse=True)
def _busy() -> Iterator[None]:
    with busy_machine():
        yield


class Scene(NamedTuple):
    """A node in device time, what is at its pins, and what its cores saw."""

    node: Node
    nursery: trio.Nursery
    seen: dict[str, list[tuple[int, int]]]

    def pins(self, *names: str) -> list[Pin]:
        return [self.node.tiles[0].pin(name) for name in names]

    async def start(self, *peripherals: Runs) -> None:
        for each in peripherals:
            await self.nursery.start(each.run)

    async def watch(self, *names: str) -> None:
        """Have a core of each of some ports note each value, and at which of its ticks that woke it."""
        for name in names:
            self._watch(name)
        await self.until(self.node.clock.ticks() + 1000)  # they have begun

    def _watch(self, name: str) -> None:
        tile, seen = self.node.tiles[0], self.seen.setdefault(name, [])
        port = tile.port(name)

        async def look() -> None:
            port.enable()
            value = await port.in_()
            while True:
                value = await port.in_when_pinsneq(value)
                seen.append((self.node.runtime.tick_of(current_core()), value))

        tile.start(look)

    def soon(self) -> int:
        """Let no time pass until `until`, so that all begins now; return a tick soon after."""
        self.node.runtime.hold()
        return self.node.clock.ticks() + MS

    async def until(self, tick: int) -> None:
        """Wait until the node has come to a tick."""
        await self.pins("1P")[0].until(tick)

    def relative(self) -> dict[str, list[tuple[int, int]]]:
        """What cores saw, since the first of it: when peripherals start is this machine's matter."""
        first = min(tick for each in self.seen.values() for tick, _ in each)
        return {name: [(tick - first, value) for tick, value in each] for name, each in self.seen.items()}


Play = Callable[[Scene], Awaitable[Any]]


async def i2c_target(scene: Scene) -> Any:
    scl, sda = scene.pins("1A", "1B")
    memory = I2cMemory(address=0x48)
    target = I2cTarget("memory", scl, sda, memory, speed=SPEEDS["standard"], stretch=3000)
    await scene.start(target)
    await scene.watch("1B")
    controller = I2cController(scl, sda, low=1400, high=1100, setup=700)
    await controller.wait(1000)
    await controller.start()
    told: list[Any] = [await controller.write(byte) for byte in (0x90, 7, 0xA5)]
    await controller.start()
    told += [await controller.write(byte) for byte in (0x90, 7)]
    await controller.start()
    told += [await controller.write(0x91), await controller.read(last=True)]
    await controller.stop()
    assert told == [True] * 6 + [0xA5]
    assert target.violations.rules == []
    return scene.relative()


def spi_pins(scene: Scene) -> SpiPins:
    return SpiPins(*scene.pins("1A", "1B", "1C", "1D"))


async def spi_target(scene: Scene) -> Any:
    memory = SpiMemory(b"\x5a\xc3\x0f")
    target = SpiTarget("memory", spi_pins(scene), memory)
    controller = SpiController("host", spi_pins(scene), half_period=500)
    await scene.start(target, controller)
    await scene.watch("1D")
    await scene.until(scene.node.clock.ticks() + 1000)
    assert await controller.transfer(b"\x96\x69\xf0") == b"\x5a\xc3\x0f"
    assert memory.received == [b"\x96\x69\xf0"]
    assert target.violations.rules == []
    return scene.relative()


async def spi_controller(scene: Scene) -> Any:
    await scene.watch("1A", "1C")
    await scene.start(SpiController("host", spi_pins(scene), half_period=200, send=b"\x99", every=1e-3))
    await scene.until(scene.node.clock.ticks() + 5 * MS)
    return [relative[:8] for relative in scene.relative().values()]


async def spi_port(_: Scene) -> Any:
    pins = "".join(
        f'[[pins]]\nport = "{port}"\nto = "port.{signal}"\n'
        for signal, port in {"cs": "1A", "clk": "1B", "mosi": "1C", "miso": "1D"}.items()
    )
    text = f'[[engines]]\narena = 0\n[spi]\n[[peripherals]]\nname = "port"\nkind = "spi-port"\n{pins}'
    answers = []
    async with open_device(parse_board(text), runner=inline, device_time=True) as device:
        tile = device.node.tiles[0]
        async with trio.open_nursery() as nursery:
            on_pins = SpiPins(*(tile.pin(port) for port in ("1A", "1B", "1C", "1D")))
            controller = SpiController("host", on_pins, half_period=1000)
            await nursery.start(controller.run)
            await tile.pin("1P").until(device.node.clock.ticks() + MS)
            for command, size in ((Command.GET_ID, 4), (Command.GET_SPEC, 40)):
                answers.append(await controller.transfer(bytes((command,)) + bytes(2 + size)))
            nursery.cancel_scope.cancel()
    assert all(map(any, answers)), answers
    return answers


async def uart(scene: Scene) -> Any:
    (line,) = scene.pins("1A")
    form = UartFormat(9600)
    receiver = UartReceiver("in", line, form)
    await scene.start(receiver)
    await scene.watch("1A")
    transmitter = UartTransmitter("out", line, form)
    await scene.start(transmitter)
    await transmitter.send(b"a pin's due tick")
    await scene.until(scene.node.clock.ticks() + MS)
    assert receiver.received == b"a pin's due tick"
    assert receiver.violations.rules == []
    return scene.relative()


SAMPLES = [0x5A, -0x80, 0x01, 0x33, -1, 0x7F]


async def i2s(scene: Scene) -> Any:
    pins = I2sPins(*scene.pins("1A", "1B", "1C"))
    source, sink = I2sSource("mic", pins, SAMPLES, width=8), I2sSink("speaker", pins, width=8)
    await scene.watch("1A", "1B", "1C")
    await scene.start(source, sink, I2sClock("clock", pins.bclk, pins.lrclk, rate=500, slot=12))
    await scene.until(scene.node.clock.ticks() + 12 * MS)
    sent = [sample for sample in sink.samples if sample]
    assert sent == SAMPLES
    assert [*source.violations.rules, *sink.violations.rules] == []
    return [relative[:10] for relative in scene.relative().values()]


class Frame(NamedTuple):
    height: int
    data: bytes


class Frames:
    def __init__(self, *frames: Frame) -> None:
        self._frames = list(frames)

    async def frame(self) -> Frame | None:
        return self._frames.pop(0) if self._frames else None


async def parallel_camera(scene: Scene) -> Any:
    data = tuple(scene.pins(*(f"8B.{bit}" for bit in range(BITS))))
    pins = CameraPins(data, *scene.pins("1E", "1F", "1G"))
    frames = Frames(Frame(2, b"\x01\xfe\x3c"), Frame(2, b"\x80\x7f"))
    await scene.watch("8B", "1F", "1G")
    await scene.start(
        ParallelCamera(
            "camera", pins, frames, clock=20_000, blanking=Blanking(row=3, sync=1, before=2, after=1)
        )
    )
    await scene.until(scene.node.clock.ticks() + 8 * MS)
    return scene.relative()


async def button(scene: Scene) -> Any:
    """The core of the tutorial: a timer, and a button whose both edges it waits for."""
    tile, (pin,) = scene.node.tiles[0], scene.pins("1B")
    port, timer = tile.port("1B"), tile.allocate_timer()
    presses: list[int] = []
    begin = scene.soon()
    seconds = [(begin + each * MS) / TICKS_PER_SECOND for each in (4, 6, 8, 10, 12)]
    await scene.start(Button("mute", pin, presses=seconds, hold=0.0005))

    async def director() -> None:
        port.enable()
        port.set_trigger_in_equal(0)
        tick = timer.after(begin)
        while True:
            if await select(tick, port) is tick:
                tick.change(timer.now() + MS // 10)
            elif await port.in_() == 0:
                presses.append(scene.node.runtime.tick_of(current_core()) - begin)
                port.set_trigger_in_equal(1)
            else:
                port.set_trigger_in_equal(0)

    tile.start(director)
    await scene.until(begin + 14 * MS)
    assert [press // MS for press in presses] == [4, 6, 8, 10, 12]
    return presses


async def led(scene: Scene) -> Any:
    tile, (pin,) = scene.node.tiles[0], scene.pins("1A")
    lamp, timer = tile.port("1A"), tile.allocate_timer()
    seen, begin = Led("lamp", pin), scene.soon()
    await scene.start(seen)

    async def blink() -> None:
        lamp.enable()
        for at in range(40):
            await timer.wait_after(begin + at * MS // 5)
            await lamp.out(1 - at % 2)

    tile.start(blink)
    await scene.until(begin + 11 * MS)
    return [(tick - begin, is_lit) for tick, is_lit in seen.changes]


PLAYS: dict[PeripheralKind, Play] = {
    PeripheralKind.I2C_TARGET: i2c_target,
    PeripheralKind.SPI_TARGET: spi_target,
    PeripheralKind.SPI_PORT: spi_port,
    PeripheralKind.SPI_CONTROLLER: spi_controller,
    PeripheralKind.UART: uart,
    PeripheralKind.I2S_SOURCE: i2s,
    PeripheralKind.I2S_SINK: i2s,
    PeripheralKind.I2S_CLOCK: i2s,
    PeripheralKind.PARALLEL_CAMERA: parallel_camera,
    PeripheralKind.BUTTON: button,
    PeripheralKind.LED: led,
}


async def stimulus(scene: Scene) -> Any:
    (pin,) = scene.pins("1A")
    await scene.watch("1A")
    begin = scene.soon()
    Stimulus("wave.vcd", tuple((at * 7001, 1 - at % 2) for at in range(60))).drive(pin, begin)
    await scene.until(begin + 5 * MS)
    return scene.relative()


async def pins_function(scene: Scene) -> Any:
    """An async function of `--pins`: it answers an edge, and knocks at its own times."""
    asked, answered = scene.pins("1A", "1B")
    await scene.watch("1B")
    begin = scene.soon()
    lamp, timer = scene.node.tiles[0].port("1A"), scene.node.tiles[0].allocate_timer()

    async def function() -> None:
        hand = Line("hand")
        answered.drive(0, hand)
        for _ in range(20):
            await asked.edge(rising=True)
            answered.drive(1, hand)
            await answered.until(scene.node.clock.ticks() + 777)
            answered.drive(0, hand)

    async def ask() -> None:
        lamp.enable()
        for at in range(40):
            await timer.wait_after(begin + at * MS // 5)
            await lamp.out(at % 2)

    scene.nursery.start_soon(function)
    scene.node.tiles[0].start(ask)
    await scene.until(begin + 11 * MS)
    return scene.relative()


async def play(scenario: Play) -> Any:
    with trio.fail_after(SECONDS):
        async with open_node(classes=TIMED) as node, trio.open_nursery() as nursery:
            told = await scenario(Scene(node, nursery, {}))
            nursery.cancel_scope.cancel()
            node.stop()
    return told


EVERY_DAY = (button, uart, stimulus, pins_function)
LONG = pytest.mark.long("busy loops take the processors from other tests; four scenarios run every day")


def scenarios() -> Iterator[Any]:
    for each in (*dict.fromkeys(PLAYS.values()), stimulus, pins_function):
        yield pytest.param(each, id=each.__name__, marks=() if each in EVERY_DAY else LONG)


def test_each_kind_of_peripheral_is_tried() -> None:
    assert set(PLAYS) == set(PeripheralKind)


@pytest.mark.parametrize("scenario", [*scenarios()])
def test_a_busy_machine_moves_no_edge(scenario: Play) -> None:
    on_virtual_time = trio.run(play, scenario, clock=trio.testing.MockClock(autojump_threshold=0))
    assert on_virtual_time
    assert trio.run(play, scenario) == on_virtual_time
