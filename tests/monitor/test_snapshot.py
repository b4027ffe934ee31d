"""Snapshots of real devices on virtual time, value by value."""

import io
import json
import struct
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import trio
from tflite import ActivationFunctionType, BuiltinOperator, TensorType
from trio.testing import MockClock, wait_all_tasks_blocked

from aisrv import digits
from aisrv.attach.inprocess import InProcessHost
from aisrv.board import Board, EngineSpec, UsbProtocol
from aisrv.cli.options.status import MonitoredPorts, StatusOptions, watch_devices
from aisrv.device.device import Device, open_device
from aisrv.inference.process.inline import inline
from aisrv.monitor.json_lines import status_line
from aisrv.monitor.snapshot import DeviceMonitor, core_status, top_scores
from aisrv.monitor.values import (
    CoreState,
    CoreStatus,
    DeviceStatus,
    EngineStatus,
    Peer,
    PortStatus,
    Rates,
    Score,
    Traffic,
    rates_between,
)
from aisrv.protocol.commands import Status
from aisrv.protocol.engine_kind import EngineKind
from aisrv.xcore.node import open_node
from phy.spi.bus import SpiTransfer
from tests.support.models import networks
from tests.support.models.one_operator import single, tensor

WAITING, RUNNING = CoreState.WAITING, CoreState.RUNNING
DARK = (False,) * 4
IDLE_ENGINE = EngineStatus(0, 0, None, 0, (), DARK, Status.OKAY)


def watched_device(device: Device) -> MonitoredPorts:
    spi = {} if device.spi is None else {"0.0": device.spi}
    with watch_devices([device], [device.usb], spi, StatusOptions(status=True)) as watched:
        return watched


async def sole_snapshot(watched: MonitoredPorts) -> DeviceStatus:
    """The state once nothing is left to do."""
    await wait_all_tasks_blocked()
    return watched.monitors[0].snapshot()


async def send(host: InProcessHost, command: int, data: bytes | None = None) -> None:
    await host.write(bytes((command, 0, 0)))
    if data is not None:
        await host.write(data)


@pytest.mark.plain_time("its tasks wait before any time has passed")
def test_idle_device() -> None:
    async def main() -> DeviceStatus:
        await trio.sleep(7)
        async with open_device(runner=inline) as device:
            return await sole_snapshot(watched_device(device))

    status = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert (status.name, status.time) == ("1-1", 7.0)
    assert status.engines == (IDLE_ENGINE,)
    assert status.ports == (PortStatus("usb 1-1", Traffic()), PortStatus("spi 0.0", Traffic()))
    cores = [core for tile in status.tiles for core in tile.cores]
    assert [(core.name, core.verb, core.peers) for core in cores] == [
        ("aiengine 0", "select", (Peer(1, "usb_data"), Peer(1, "spi_buffer"))),
        ("XUD", "", ()),
        ("usb_ep0", "get_setup", ()),
        ("usb_data", "get_buffer", ()),
        ("spi_slave", "next_message", ()),
        ("spi_buffer", "select", (Peer(1, "spi_slave"), Peer(0, "aiengine 0"))),
    ]


def test_an_engine_tells_what_runs_its_model_in_its_place() -> None:
    pytest.importorskip("tflite_micro")
    engine = EngineSpec(kind=EngineKind("kernels"), fallback=EngineKind("tflm"))
    floats = [tensor(name, (1, 3), kind=TensorType.FLOAT32) for name in ("one", "two", "out")]
    tanh = {"fused_activation_function": ActivationFunctionType.TANH}  # which kernels refuses
    model = single(BuiltinOperator.ADD, floats[:2], floats[2:], tanh)

    async def main() -> DeviceStatus:
        async with open_device(Board(engines=(engine,)), runner=inline) as device:
            watched = watched_device(device)
            await device.load_model(model)
            return await sole_snapshot(watched)

    status = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert status.engines == (replace(IDLE_ENGINE, model_bytes=len(model), fallback="tflm"),)
    assert json.loads(status_line(status))["engines"][0]["fallback"] == "tflm"


@pytest.mark.plain_time("it counts per second of waits of its own")
def test_inferences_outputs_leds_and_traffic() -> None:
    image, label = next(digit for digit in digits.test_images() if digit.label == 1)
    (output,) = networks.run(digits.model_bytes(), image)
    values = struct.unpack("10b", output)
    best = sorted(range(10), key=lambda index: (-values[index], index))[:3]
    assert best[0] == label

    async def main() -> tuple[DeviceStatus, DeviceStatus]:
        async with open_device(runner=inline) as device:
            watched = watched_device(device)
            host = InProcessHost(watched.usb[0])
            await host.plug_in()
            await device.load_model(digits.model_bytes())
            before = await sole_snapshot(watched)
            await send(host, 0x93, b"\1")
            await send(host, 0x91, b"\1")
            await send(host, 0x83, image)
            await send(host, 0x84, b"")
            await send(host, 0x84, b"")
            await send(host, 0x05)
            assert await host.read(512) == output
            await trio.sleep(2)
            await watched.spi["0.0"].message((SpiTransfer(b"\x10" + bytes(6)),))
            return before, await sole_snapshot(watched)

    before, after = trio.run(main, clock=MockClock(autojump_threshold=0))
    assert before.engines == (replace(IDLE_ENGINE, model_bytes=len(digits.model_bytes())),)
    leds = (False, True, False, False)
    top = tuple(Score(index, values[index]) for index in best)
    assert after.engines == (replace(before.engines[0], inferences=2, top=top, leds=leds),)
    usb, spi = Traffic(6 * 3 + 2 + 64, 10, 6), Traffic(7, 7, 1)
    assert after.ports == (PortStatus("usb 1-1", usb), PortStatus("spi 0.0", spi))
    assert rates_between(before, after) == (Rates(42.0, 5.0, 3.0), Rates(3.5, 3.5, 0.5))


async def test_errors_that_no_host_has_read() -> None:
    async with open_device(runner=inline) as device:
        watched = watched_device(device)
        host = InProcessHost(watched.usb[0])
        await host.plug_in()
        await send(host, 0x84, b"")
        status = await sole_snapshot(watched)
        assert status.engines == (replace(IDLE_ENGINE, errors=Status.ERROR_NO_MODEL),)
        halted = status.tiles[1].cores[2]
        assert halted == CoreStatus(2, "usb_data", WAITING, "wait_halt_cleared", "endpoint 0x01")


async def test_data_that_are_due_are_what_the_task_waits_for() -> None:
    async with open_device(runner=inline) as device:
        watched = watched_device(device)
        host = InProcessHost(watched.usb[0])
        await host.plug_in()
        await send(host, 0x83)
        await host.write(bytes(512))
        status = await sole_snapshot(watched)
        engine, data_task = status.tiles[0].cores[0], status.tiles[1].cores[2]
        assert (engine.verb, engine.waits_on) == ("receive_array", "chanend 0x80000002")
        assert (data_task.verb, data_task.waits_on) == ("get_buffer", "endpoint 0x01")


async def test_a_model_that_is_gone_takes_its_outputs_along() -> None:
    async with open_device(runner=inline) as device:
        watched = watched_device(device)
        host = InProcessHost(watched.usb[0])
        await host.plug_in()
        await device.load_model(digits.model_bytes())
        await send(host, 0x84, b"")
        await send(host, 0x86, b"no model")
        (engine,) = (await sole_snapshot(watched)).engines
        assert (engine.model_bytes, engine.top, engine.inferences) == (None, (), 1)
        assert engine.errors is Status.ERROR_MODEL_ERR


async def test_engines_by_number_with_their_tiles() -> None:
    board = Board(engines=(EngineSpec(tile=0, chain_to=1), EngineSpec(tile=1)), spi=None, serial="LAB-7")
    async with open_device(board, runner=inline) as device:
        status = await sole_snapshot(watched_device(device))
    assert [(engine.number, engine.tile) for engine in status.engines] == [(0, 0), (1, 1)]
    assert [port.name for port in status.ports] == ["usb 1-1"]
    assert status.name == "1-1, serial number LAB-7"


async def test_two_devices_have_their_own_names_and_counts() -> None:
    async with open_device(runner=inline) as one, open_device(Board(spi=None), runner=inline) as other:
        assert one.spi is not None
        spi = {"0.0": one.spi}
        with watch_devices([one, other], [one.usb, other.usb], spi, StatusOptions(status=True)) as watched:
            host = InProcessHost(watched.usb[1])
            await host.plug_in()
            await send(host, 0x10)
            first, second = (monitor.snapshot() for monitor in watched.monitors)
    assert [port.total.commands for port in first.ports] == [0, 0]
    assert second.ports == (PortStatus("usb 1-2", Traffic(3, 0, 1)),)


@pytest.mark.parametrize(("protocol", "length"), [(UsbProtocol.AISRV, 2), (UsbProtocol.IOSERVER, 4)])
async def test_ignored_packets_are_counted_for_each_device(protocol: UsbProtocol, length: int) -> None:
    board = Board(protocol=protocol)
    async with open_device(board, runner=inline) as one, open_device(board, runner=inline) as other:
        host = InProcessHost(one.usb)
        await host.plug_in()
        for _ in range(3):
            await host.write(bytes(length))
        await wait_all_tasks_blocked()
        counts = [DeviceMonitor("a", each, {}).snapshot().ignored_packets for each in (one, other)]
    assert counts == [3, 0]


def test_ignored_packets_are_in_the_json() -> None:
    assert '"ignored_packets": 7' in status_line(DeviceStatus("a", 1.0, (), (), (), ignored_packets=7))


def test_snapshots_that_differ_in_time_alone_are_equal() -> None:
    assert DeviceStatus("a", 1.0, (), (), ()) == DeviceStatus("a", 2.0, (), (), ())
    assert DeviceStatus("a", 1.0, (), (), ()) != DeviceStatus("b", 1.0, (), (), ())


def test_no_rate_without_time() -> None:
    status = DeviceStatus("a", 1.0, (), (), (PortStatus("usb", Traffic(3, 4, 5)),))
    assert rates_between(status, status) == (Rates(),)


# Cores.


async def test_core_that_was_woken_and_has_not_run_yet_is_running() -> None:
    async with open_node() as node:
        channel = node.channel(node.tiles[0], node.tiles[1])
        core = node.tiles[0].start(channel.a.inuint, name="reader")
        assert core_status(core) == CoreStatus(0, "reader", CoreState.SET_ASIDE)  # it has no task yet
        await wait_all_tasks_blocked()
        assert core_status(core) == CoreStatus(0, "reader", WAITING, "inuint", "chanend 0x80000002")
        await channel.b.outuint(1)
        assert core_status(core) == CoreStatus(0, "reader", RUNNING)
    assert node.tiles[0].cores == ()


async def test_core_that_sleeps_is_found_in_its_function() -> None:
    async def blink() -> None:
        await trio.sleep_forever()

    async with open_node() as node:
        core = node.tiles[1].start(blink)
        await wait_all_tasks_blocked()
        assert core_status(core) == CoreStatus(0, "blink", WAITING, "blink", "")
        node.stop()


async def test_core_that_waits_for_a_timer_names_it() -> None:
    async with open_node() as node:
        timer = node.tiles[0].allocate_timer()
        core = node.tiles[0].start(timer.wait_after, timer.now() + 10**9, name="clock")
        await wait_all_tasks_blocked()
        assert core_status(core) == CoreStatus(0, "clock", WAITING, "wait_after", "timer 0x80000001")
        node.stop()


async def test_core_that_trapped_is_halted_and_still_in_use() -> None:
    async with open_node(on_trap="halt") as node:
        end = node.tiles[0].allocate_chanend()
        end.free()
        core = node.tiles[0].start(end.inuint, name="wrong")
        await wait_all_tasks_blocked()
        assert node.tiles[0].cores == (core,)
        assert core_status(core) == CoreStatus(
            0,
            "wrong",
            CoreState.HALTED,
            trap="inuint on chanend 0x80000002: ILLEGAL_RESOURCE (4): "
            "inuint on chanend 0x80000002, which was freed",
        )


async def test_cores_of_a_tile_are_those_in_use_by_number() -> None:
    async with open_node() as node:
        tile = node.tiles[0]
        first, second = tile.reserve_core("a"), tile.reserve_core("b")
        assert list(tile.cores) == [first, second]
        tile.release_core(first)
        assert list(tile.cores) == [second]
        third = tile.reserve_core("c")
        assert list(tile.cores) == [third, second]


# Scores.


@pytest.mark.parametrize(
    ("tensor", "top"),
    [
        (b"", []),
        (b"\x80", [(0, -128)]),
        (b"\x01\xff\x7f\x00", [(2, 127), (0, 1), (3, 0)]),
        (b"\x05\x05\x05\x05", [(0, 5), (1, 5), (2, 5)]),
        (bytes(4095) + b"\x01", [(4095, 1), (0, 0), (1, 0)]),
        (bytes(4097), []),  # an image or the like
    ],
)
def test_top_scores_are_the_largest_int8(tensor: bytes, top: list[tuple[int, int]]) -> None:
    assert top_scores(memoryview(tensor)) == tuple(Score(*each) for each in top)


def test_top_scores_have_the_names_of_their_classes() -> None:
    scores = memoryview(b"\x01\xff\x7f\x00")
    assert top_scores(scores, ("a", "b", "c")) == (Score(2, 127, "c"), Score(0, 1, "a"), Score(3, 0))


@pytest.mark.parametrize(
    ("of_the_board", "shown"), [((), "in the file"), (("of the board",) * 10, "of the board")]
)
async def test_names_of_the_board_go_before_those_of_the_model(
    of_the_board: tuple[str, ...], shown: str
) -> None:
    content = io.BytesIO(digits.model_bytes())
    with zipfile.ZipFile(content, "a") as archive:
        archive.writestr("labels.txt", "in the file\n" * 10)
    board = Board(engines=(EngineSpec(labels=of_the_board),))
    async with open_device(board, runner=inline) as device:
        await device.load_model(content.getvalue())
        await device.engines[0].inference.invoke()
        (engine,) = DeviceMonitor("1-1", device, {}).snapshot().engines
        assert [score.label for score in engine.top] == [shown] * 3
        await device.load_model(digits.model_bytes())
        await device.engines[0].inference.invoke()
        (engine,) = DeviceMonitor("1-1", device, {}).snapshot().engines
        assert [score.label for score in engine.top] == [of_the_board[0] if of_the_board else ""] * 3


# The options.


async def test_without_the_options_ports_are_those_of_the_device() -> None:
    async with open_device(runner=inline) as device:
        ports = [device.usb]
        with watch_devices([device], ports, {}, StatusOptions()) as watched:
            assert (watched.usb, watched.spi, watched.monitors) == (ports, {}, ())


async def test_leds_of_the_first_device_are_drawn(tmp_path: Path) -> None:
    path = tmp_path / "leds.vcd"
    async with open_device(runner=inline) as device:
        with watch_devices([device], [device.usb], {}, StatusOptions(gpio_vcd=path)) as watched:
            assert watched.monitors == ()
    assert "$scope module engine0 $end" in path.read_text()
