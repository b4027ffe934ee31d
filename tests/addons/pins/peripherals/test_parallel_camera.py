"""The parallel camera: a walk over the levels of its pins, and a port that it clocks."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Struct

from aisrv.addons.pins.peripherals.parallel_camera import BITS, Blanking, CameraPins, ParallelCamera
from aisrv.xcore.ports.pin import Pin
from tests.support.benches.pin_bench import PinBench, pin_bench
from tests.support.benches.simulation import simulated

DATA = [f"8B.{bit}" for bit in range(BITS)]
SHORT = Blanking(row=3, sync=1, before=2, after=1)


class Frame(Struct):
    height: int
    data: bytes


class Frames:
    """Some frames, and no more."""

    def __init__(self, *frames: Frame) -> None:
        self._frames = list(frames)

    async def frame(self) -> Frame | None:
        return self._frames.pop(0) if self._frames else None


def camera_pins(bench: PinBench) -> CameraPins:
    pclk, hsync, vsync = bench.pins("1E", "1F", "1G")
    return CameraPins(tuple(bench.pins(*DATA)), pclk, hsync, vsync)


def received(pins: CameraPins, end: int) -> list[tuple[int, list[bytes]]]:
    """Walk over the ticks: return for each frame its lines with `vsync`, counted in clocks, and its rows."""
    frames: list[tuple[int, list[bytes]]] = []
    was = (0, 0, 0)
    for tick in range(end):
        pclk, hsync, vsync = now = (pins.pclk.value(tick), pins.hsync.value(tick), pins.vsync.value(tick))
        if pclk and not was[0]:  # what is read at a rising edge was there before it
            _, hsync, vsync = (pin.value(tick - 1) for pin in pins[1:])
            if vsync:
                if not frames or frames[-1][1]:
                    frames.append((0, []))
                frames[-1] = frames[-1][0] + 1, []
            if hsync:
                if not row_goes_on(pins.hsync, pins.pclk, tick):
                    frames[-1][1].append(b"")
                byte = sum(pin.value(tick - 1) << bit for bit, pin in enumerate(pins.data))
                frames[-1][1][-1] += bytes((byte,))
        was = now
    return frames


def row_goes_on(hsync: Pin, pclk: Pin, tick: int) -> bool:
    """Whether `hsync` was high at the rising edge before the one at a tick."""
    before = next(at for at in range(tick - 1, 0, -1) if pclk.value(at) and not pclk.value(at - 1))
    return hsync.value(before - 1) == 1


@given(
    st.integers(1, 5),
    st.integers(1, 4),
    st.sampled_from([50_000_000, 33_000_000, 24_000_000, 10_000_000]),
    st.randoms(use_true_random=False),
)
@settings(max_examples=12)
def test_frames_are_sampled_at_rising_edges(width: int, height: int, hz: int, random: object) -> None:
    data = [bytes(random.randrange(256) for _ in range(width * height)) for _ in range(2)]  # type: ignore[attr-defined]

    @simulated
    async def run() -> None:
        async with pin_bench() as bench:
            pins = camera_pins(bench)
            for pin in (*pins.data, *pins[1:]):
                pin.keep("test", 0)
            frames = Frames(*(Frame(height, each) for each in data))
            await bench.start(ParallelCamera("cam", pins, frames, clock=hz, blanking=SHORT))
            end = 2 * (width + 3) * (height + 4) * 100_000_000 // hz + 60
            await bench.until(end)
            rows = [[each[at * width : (at + 1) * width] for at in range(height)] for each in data]
            assert received(pins, end) == [(width + 3, each) for each in rows]

    run()


@simulated
async def test_a_buffered_port_that_the_pixel_clock_clocks_has_the_rows() -> None:
    data = bytes(7 * at % 256 for at in range(64 * 3))
    async with pin_bench() as bench:
        await bench.start(ParallelCamera("cam", camera_pins(bench), Frames(Frame(3, data)), clock=24_000_000))
        tile = bench.node.tiles[0]
        block = tile.allocate_clock_block()
        pclk, hsync, port = tile.port("1E"), tile.port("1F"), tile.port("8B")
        pclk.enable()
        hsync.enable()
        port.start_buffered(32)
        await bench.until(100)
        block.set_source_port(pclk)
        for each in (hsync, port):
            each.set_clock(block)
        block.start()
        rows = []
        for _ in range(3):
            hsync.set_trigger_in_equal(1)
            await hsync.in_()
            await port.set_trigger_time(hsync.get_trigger_time() + 3)
            rows.append(b"".join([(await port.in_()).to_bytes(4, "little") for _ in range(16)]))
            hsync.set_trigger_in_equal(0)
            await hsync.in_()
        assert b"".join(rows) == data


@simulated
async def test_a_camera_without_frames_clocks_on() -> None:
    async with pin_bench() as bench:
        pins = camera_pins(bench)
        await bench.start(ParallelCamera("cam", pins, Frames(), clock=1_000_000))
        await bench.until(1_000)
        assert [await pins.pclk.edge(rising=True) for _ in range(2)] == [1_051, 1_151]
        assert [pin.level() for pin in (*pins.data, pins.hsync, pins.vsync)] == [0] * 10


@simulated
async def test_a_camera_that_ends_leaves_its_pins() -> None:
    async with pin_bench() as bench:
        pins = camera_pins(bench)
        await bench.start(ParallelCamera("cam", pins, Frames(Frame(1, b"\xff"))))
        await bench.until(50)
        bench.nursery.cancel_scope.cancel()
    assert [pin.level(pin.runtime.clock.ticks()) for pin in (*pins.data, *pins[1:])] == [2] * 11
