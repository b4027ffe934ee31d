"""Attacks on the page's server, while a page is fed and while none is: it goes on and keeps nothing."""

import os
import random
import signal
import socket
import struct
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, suppress
from itertools import count
from pathlib import Path

import pytest
import trio
from trio.testing import MockClock, wait_all_tasks_blocked

from aisrv import digits
from aisrv.addons.web.cpu_time import CpuTime
from aisrv.addons.web.device.controls import Controls
from aisrv.addons.web.device.device_view import DeviceView
from aisrv.addons.web.hub import GRID, TICK, Hub
from aisrv.addons.web.server import PAGES, SEND_BUFFER, PageServer
from aisrv.addons.web.view import Json
from aisrv.board import Board
from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.listeners.websocket import REQUEST_SECONDS
from tests.support.benches.served_page import TOKEN, UPGRADE, Page, Socket, hello, opened, served
from tests.support.oracles.process_resources import count_descriptors
from tests.support.programs import running

GENEROUS = 30.0
RESET = struct.pack("ii", 1, 0)
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(9)


def head(port: int, line: str = "GET / HTTP/1.1", **headers: str) -> bytes:
    """A request; names have _ for -."""
    named = {"Host": f"127.0.0.1:{port}"} | {key.replace("_", "-"): value for key, value in headers.items()}
    lines = [line, *(f"{key}: {value}" for key, value in named.items()), "", ""]
    return "\r\n".join(lines).encode("latin-1")


def upgrade(port: int) -> bytes:
    return head(
        port, "GET /socket HTTP/1.1", **{key.replace("-", "_"): value for key, value in UPGRADE.items()}
    )


def frame(data: bytes, first: int = 0x81) -> bytes:
    """A page's frame of less than 126 bytes, whose mask is zeros."""
    return bytes((first, 0x80 | len(data), 0, 0, 0, 0)) + data


async def send(page: Page, data: bytes, *, reset: bool = False) -> None:
    """Send something on a connection of its own, and leave at once."""
    stream = await trio.open_tcp_stream("127.0.0.1", page.port)
    if reset:
        stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, RESET)
    async with stream:
        with suppress(trio.BrokenResourceError):
            await stream.send_all(data)


# Attacks.


async def resets(page: Page) -> None:
    """Connections that end with RST: without a word, in a head, in a body, and once they are sockets."""
    post = head(page.port, "POST /do/model?device=1-1 HTTP/1.1", X_Aisrv_Token=TOKEN, Content_Length="9999")
    greeted = upgrade(page.port) + frame(hello().encode())
    for data in (b"", b"GET / HT", head(page.port), post + b"x", upgrade(page.port), greeted):
        for _ in range(34):
            await send(page, data, reset=True)


async def garbage(page: Page) -> None:
    numbers = random.Random(1)
    for _ in range(200):
        await send(page, numbers.randbytes(numbers.randrange(3000)), reset=bool(numbers.getrandbits(1)))


async def long_heads(page: Page) -> None:
    for _ in range(5):
        await send(page, head(page.port, X="x" * 200_000))
        await send(page, b"GET /" + b"a" * 200_000)
        await send(page, head(page.port)[:-2] + b"X: y\r\n" * 40_000)


async def other_protocols(page: Page) -> None:
    for _ in range(5):
        await send(page, PREFACE)
        await send(
            page, head(page.port, Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", HTTP2_Settings="AA")
        )
        await send(page, b"\x16\x03\x01\x02\x00\x01" + bytes(500))


async def closed_at_once(page: Page) -> None:
    for _ in range(100):
        await send(page, b"")


async def frames_after_the_token(page: Page) -> None:
    """What no page sends, after a token that is right."""
    greeted = upgrade(page.port) + frame(hello().encode())
    for bad in (
        b"\x81\x05hello",  # without a mask
        frame(b"x" * 100, 0xC1),
        frame(b"\xff\xfe", 0x81),
        frame(b"[" * 120),
        frame(b'{"see": 7}'),
        frame(b'{"see": "9-9"}'),
        frame(b"{}" * 60, 0x01) + frame(b"x" * 120, 0x00) * 20,
        frame(b"", 0x89) * 500,
        frame(b"\x03", 0x88),
    ):
        await send(page, greeted + bad)
        await send(page, greeted + bad, reset=True)


ATTACKS: list[Callable[[Page], Awaitable[None]]] = [
    resets,
    garbage,
    long_heads,
    other_protocols,
    closed_at_once,
    frames_after_the_token,
]


async def until_alone(page: Page, peers: int, descriptors: int) -> None:
    """Wait until only so many peers are left, and all else is closed."""
    with trio.fail_after(GENEROUS):
        while page.server.peers > peers or count_descriptors() > descriptors:
            await wait_all_tasks_blocked(0.01)


def changes(page: Page) -> Iterator[int]:
    """Have the device show another number each time."""
    for number in count(1):
        page.device.engines[0].inferences = number
        yield number


async def until_seen(socket: Socket, number: int) -> None:
    with trio.fail_after(GENEROUS):
        while (await socket.message()).get("patch", {}).get("engines", {}).get("0", {}).get("n") != number:
            pass


@pytest.mark.parametrize("fed", [True, False])
@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
async def test_an_attack_ends_its_own_connections_alone(
    attack: Callable[[Page], Awaitable[None]], fed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    async with served() as page, AsyncExitStack() as stack:
        numbers = changes(page)
        if fed:
            socket = await stack.enter_async_context(opened(page, hello()))
            await until_seen(socket, next(numbers))
        before = count_descriptors()
        await attack(page)
        await until_alone(page, int(fed), before)
        assert (await page.ask("/"))[0] == 200
        if fed:
            await until_seen(socket, next(numbers))
        assert all(core.trap is None for tile in page.device.node.tiles for core in tile.cores)
        assert page.device.engines[0].inference.model is None
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_other_protocols_are_not_spoken() -> None:
    async with served() as page:
        assert (await page.send(PREFACE)).startswith(b"HTTP/1.1 4")
        h2c = {"Connection": "Upgrade, HTTP2-Settings, close", "Upgrade": "h2c", "HTTP2-Settings": "AA"}
        answer = await page.send(
            head(page.port, **{key.replace("-", "_"): value for key, value in h2c.items()})
        )
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"upgrade" not in answer.partition(b"\r\n\r\n")[0].lower()


WRONG = [
    {"Host": "127.0.0.1:1"},
    {"Host": "evil.example:PORT"},
    {"Host": "127.0.0.1.evil.example:PORT"},
    {"Origin": "http://localhost:PORT"},
    {"Origin": "https://127.0.0.1:PORT"},
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
    {"Sec_Fetch_Site": ""},
    {"X_Aisrv_Token": ""},
    {"X_Aisrv_Token": TOKEN + " x"},
    {"X_Aisrv_Token": TOKEN.upper()},
]


@pytest.mark.parametrize("wrong", WRONG, ids=str)
async def test_a_request_of_strangers_has_no_effect(wrong: dict[str, str]) -> None:
    given = {"X_Aisrv_Token": TOKEN, "Connection": "close", "Content_Length": "0"} | wrong
    async with served() as page:
        named = {key: value.replace("PORT", str(page.port)) for key, value in given.items()}
        answer = await page.send(head(page.port, "POST /do/gpio?device=1-1&on=1 HTTP/1.1", **named))
        assert answer.split()[1] == b"403"
        assert not page.device.engines[0].gpio.enabled
        assert await page.do("gpio", on="1") == (200, "done")
        assert page.device.engines[0].gpio.enabled


def test_of_a_hundred_idle_connections_some_are_kept_for_ten_seconds() -> None:
    async def wait() -> None:
        async with served() as page, AsyncExitStack() as stack:
            before = count_descriptors()
            streams = [
                await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", page.port))
                for _ in range(100)
            ]
            while page.server.peers < PAGES:
                await wait_all_tasks_blocked(0.01)
            await wait_all_tasks_blocked(0.01)
            assert count_descriptors() == before + 100 + PAGES
            clock.jump(REQUEST_SECONDS + 1)
            for stream in streams:
                assert await stream.receive_some(1) == b""
            assert page.server.peers == 0
            assert (await page.ask("/"))[0] == 200

    clock = MockClock()
    trio.run(wait, clock=clock)


# Pages that never read.


class Moving(DeviceView):
    """A device whose picture is another one each time."""

    numbers = count()

    def pictures(self) -> dict[tuple[int, int], bytes]:
        """One of 160x120."""
        header = struct.pack("<BBHHH", 1, 0, 160, 120, 0)
        return {(1, 0): header + next(self.numbers).to_bytes(4, "little") * (160 * 120 * 3 // 4)}


class Busy(DeviceView):
    """A device that has run once more each time."""

    def state(self, now: float) -> Json:
        """As `DeviceView.state`."""
        self.device.engines[0].inferences += 1
        return super().state(now)


class Reader:
    """A page's socket that takes everything, and counts what changed."""

    updates = 0

    async def run(self, socket: Socket) -> None:
        while True:
            patch = (await socket.message()).get("patch", {})
            self.updates += patch.get("engines", {}).get("0", {}).get("n") is not None


def resident() -> int:
    """Bytes of memory that this process has in use."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_pages_that_never_read_are_left_and_hold_up_nobody() -> None:
    async def run() -> None:
        async with open_device(runner=inline) as device, trio.open_nursery() as nursery:
            view = Busy("1-1", device)
            # The clock of the run does not know the time of the processor.
            hub = Hub([view, Moving("1-2", device)], cpu=CpuTime(lambda: 0.0))
            server = PageServer(hub, Controls({}), TOKEN)
            _, port = await nursery.start(server.serve)
            nursery.start_soon(hub.run)
            page = Page(device, view, server, port)
            async with opened(page, hello()) as socket:
                reader = Reader()
                nursery.start_soon(reader.run, socket)

                async def pass_seconds(seconds: float) -> int:
                    before = reader.updates
                    await trio.sleep(seconds)
                    return reader.updates - before

                await pass_seconds(2)
                before, memory = count_descriptors(), resident()
                async with AsyncExitStack() as stack:
                    for _ in range(20):
                        await stack.enter_async_context(
                            opened(page, hello("1-2"), receive_buffer=SEND_BUFFER)
                        )
                    assert 36 <= await pass_seconds(2) <= 41
                    assert server.peers == 21
                    assert resident() - memory < 5e6
                    assert 180 <= await pass_seconds(10) <= 201
                    assert server.peers == 1
                assert count_descriptors() == before
                nursery.cancel_scope.cancel()

    trio.run(run, clock=MockClock(autojump_threshold=0.003))


async def test_the_server_ends_at_once_with_all_its_pages() -> None:
    before = count_descriptors()
    async with AsyncExitStack() as stack:
        async with served() as page:
            for _ in range(10):
                await stack.enter_async_context(opened(page, hello()))
                await stack.enter_async_context(await trio.open_tcp_stream("127.0.0.1", page.port))
            await wait_all_tasks_blocked(0.01)
            begun = trio.current_time()
        assert trio.current_time() - begun < 5
    assert count_descriptors() == before


# A tab that is closed, and many devices.


async def test_a_tab_closed_at_any_moment_traps_nothing() -> None:
    model, image = digits.model_bytes(), digits.test_images()[0].image
    numbers = random.Random(3)
    async with served() as page:
        for number in range(200):
            name, body = (("model", model), ("input", image), ("infer", b""))[number % 3]
            line = f"POST /do/{name}?device=1-1 HTTP/1.1"
            request = head(page.port, line, X_Aisrv_Token=TOKEN, Content_Length=str(len(body))) + body
            stream = await trio.open_tcp_stream("127.0.0.1", page.port)
            if numbers.getrandbits(1):
                stream.setsockopt(trio.socket.SOL_SOCKET, trio.socket.SO_LINGER, RESET)
            whole = numbers.getrandbits(2)
            await stream.send_all(request if whole else request[: numbers.randrange(len(request))])
            for _ in range(numbers.randrange(30)):
                await trio.lowlevel.checkpoint()
            await stream.aclose()
        assert await page.do("model", model) == (200, "done")
        assert await page.do("input", image) == (200, "done")
        assert await page.do("infer") == (200, "done")
        assert all(core.trap is None for tile in page.device.node.tiles for core in tile.cores)


def test_a_grid_of_three_hundred_is_updated_four_times_a_second() -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            devices = [
                await stack.enter_async_context(open_device(Board(serial=f"LAB-{number}"), runner=inline))
                for number in range(3)
            ]
            views = [DeviceView(f"{n // 100}-{n}", devices[n % 3]) for n in range(300)]
            hub = Hub(views, cpu=CpuTime(lambda: 0.0))
            server = PageServer(hub, Controls({}), TOKEN)
            nursery = await stack.enter_async_context(trio.open_nursery())
            _, port = await nursery.start(server.serve)
            nursery.start_soon(hub.run)
            page = Page(devices[0], views[0], server, port)
            async with opened(page, hello(GRID)) as socket:
                assert len((await socket.message())["devices"]) == 300
                assert len((await socket.message())["patch"]["devices"]) == 300
                begun = trio.current_time()
                for number in range(1, 9):
                    devices[0].engines[0].inferences = number
                    assert len((await socket.message())["patch"]["devices"]) == 100
                assert trio.current_time() - begun == pytest.approx(8 / 4, abs=2 * TICK)
            nursery.cancel_scope.cancel()

    trio.run(run, clock=MockClock(autojump_threshold=0.001))


# The command.


def mutated(numbers: random.Random, data: bytes) -> bytes:
    """Change bytes, cut, or repeat and insert a piece."""
    found = bytearray(data)
    for _ in range(numbers.randint(1, 4)):
        at, to = sorted(numbers.randrange(len(found) + 1) for _ in range(2))
        match numbers.randrange(5):
            case 0 | 1 if at < len(found):
                found[at] = numbers.randrange(256)
            case 2:
                del found[at:to]
            case 3:
                found[at:at] = found[at:to]
            case _:
                found[at:at] = numbers.randbytes(numbers.randrange(40))
    return bytes(found)


def open_files(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))  # noqa: PTH208 - its length alone


def test_the_command_outlives_mutated_heads_and_frames(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    numbers = random.Random(2)
    with running("--web", "0", "--web-token", str(token)) as (process, ready):
        port = int(ready.rpartition(":")[2].rstrip("/"))
        with socket.create_connection(("127.0.0.1", port), GENEROUS) as fed:
            fed.sendall(upgrade(port) + frame(hello().encode()))
            assert fed.recv(12) == b"HTTP/1.1 101"
            before = open_files(process.pid)
            whole = [
                head(port),
                head(
                    port,
                    "GET /main.js HTTP/1.1",
                    Origin=f"http://127.0.0.1:{port}",
                    Sec_Fetch_Site="same-origin",
                ),
                head(
                    port,
                    "POST /do/infer?device=1-1&engine=0 HTTP/1.1",
                    X_Aisrv_Token=TOKEN,
                    Content_Length="0",
                ),
                upgrade(port) + frame(hello().encode()) + frame(b'{"see": "grid"}') + frame(b'{"see": null}'),
            ]
            for number in range(400):
                data = whole[number % 4]
                begun = len(upgrade(port)) if number % 8 == 7 else 0  # of some sockets the frames alone
                with socket.create_connection(("127.0.0.1", port), GENEROUS) as peer:
                    if numbers.getrandbits(1):
                        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
                    with suppress(OSError):
                        peer.sendall(data[:begun] + mutated(numbers, data[begun:]))
                        if numbers.getrandbits(1):
                            peer.shutdown(socket.SHUT_WR)
                            peer.recv(4096)
            with socket.create_connection(("127.0.0.1", port), GENEROUS) as peer:
                peer.sendall(head(port, Connection="close"))
                assert peer.recv(15) == b"HTTP/1.1 200 \r\n"
                while peer.recv(4096):
                    pass
            while open_files(process.pid) > before:
                assert fed.recv(65536)  # the page beside it is alive
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=GENEROUS)
    assert process.returncode == 0
    assert "Traceback" not in errors
    assert "failed" not in errors
