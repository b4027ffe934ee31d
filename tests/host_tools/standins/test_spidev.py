"""The stand-in for spidev beside the real package, and what it clocks at a slave."""

import errno
import os
import sys
import threading
import weakref
from array import array
from collections.abc import Callable, Iterator
from copy import copy
from enum import IntEnum
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from host_tools.standins import spidev as spidev_standin
from host_tools.standins.spidev import SpiDev
from phy.spi.bus import Timing
from tests.support.peers.spi_link_slaves import InvertingSlave, served
from tests.support.programs import need_package

spidev = need_package("spidev", "spidev")

FLAGS = ("lsbfirst", "cshigh", "threewire", "loop", "no_cs")
SETTINGS = ("mode", "bits_per_word", "max_speed_hz", "read0", *FLAGS)
VALUES: list[Any] = [0, 1, True, False, 3, 4, -1, 7, 8, 32, 33, 256, 259, 264, None, "a", 1.5, b"\0"]


class Number(IntEnum):
    SEVEN = 7


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[InvertingSlave]:
    slave = InvertingSlave()
    with served({"0.0": slave, "1.12": InvertingSlave()}) as address:
        monkeypatch.setenv("AISRV_SPI", address)
        yield slave


@pytest.fixture
def spi(echo: InvertingSlave) -> Iterator[SpiDev]:
    with SpiDev(0, 0) as opened:
        yield opened


def outcome(call: Callable[[], object]) -> object:
    """What a call returns, or its error with type, arguments and text; addresses in texts are left out."""
    try:
        return call()
    except Exception as error:
        text = str(error)
        if text.startswith("Non-Int/Long value in arguments: "):
            return type(error), "Non-Int/Long"
        return type(error), getattr(error, "errno", None), text


# Beside the real package: what needs no hardware.


def test_version_is_that_of_the_package() -> None:
    assert spidev.__version__ == spidev_standin.__version__


def test_members_are_those_of_the_package() -> None:
    real = {name for name in dir(spidev.SpiDev) if not name.startswith("_")}
    assert {name for name in dir(SpiDev) if not name.startswith("_")} == real
    assert {"__enter__", "__exit__"} <= set(dir(SpiDev))


@pytest.mark.parametrize("name", SETTINGS)
def test_settings_of_a_closed_object_are_those_of_the_package(name: str) -> None:
    real, ours = spidev.SpiDev(), SpiDev()
    assert getattr(ours, name) == getattr(real, name)
    assert type(getattr(ours, name)) is type(getattr(real, name))


@pytest.mark.parametrize("value", [*VALUES, 2**31, 2**32, 2**70, -(2**70)], ids=repr)
@pytest.mark.parametrize("name", SETTINGS)
def test_setting_of_a_closed_object_is_taken_or_refused_as_by_the_package(name: str, value: object) -> None:
    real, ours = spidev.SpiDev(), SpiDev()
    assert outcome(lambda: setattr(ours, name, value)) == outcome(lambda: setattr(real, name, value))
    assert getattr(ours, name) == getattr(real, name)


@pytest.mark.parametrize("name", SETTINGS)
def test_no_setting_can_be_deleted(name: str) -> None:
    real, ours = spidev.SpiDev(), SpiDev()
    assert outcome(lambda: delattr(ours, name)) == outcome(lambda: delattr(real, name))


SEQUENCES: list[Any] = [
    [], (), b"", bytearray(), [1], (1, 2), b"abc", bytearray(b"x"), range(3), {1: 2}, {1}, "ab", 5, None,
    [1, "a"], [1.0], [None], [256], [-1], [True], [Number.SEVEN], [0] * 4096, [0] * 4097, [0] * 65535,
    [0] * 65536, [0] * 65537, bytes(4097), np.zeros(3, np.uint8), [np.uint8(1)], array("B", [1]),
]  # fmt: skip


def kind(value: object) -> str:
    size = f"[{len(value)}]" if hasattr(value, "__len__") else ""
    return f"{type(value).__name__}{size}"


@pytest.mark.parametrize("make", [lambda v=v: v for v in SEQUENCES], ids=[kind(v) for v in SEQUENCES])
@pytest.mark.parametrize("method", ["xfer", "xfer2", "xfer3", "writebytes", "writebytes2"])
def test_data_are_taken_or_refused_as_by_the_package(method: str, make: Callable[[], Any]) -> None:
    """A closed object refuses what is taken with EBADF."""
    real, ours = spidev.SpiDev(), SpiDev()
    assert outcome(lambda: getattr(ours, method)(make())) == outcome(lambda: getattr(real, method)(make()))


@pytest.mark.parametrize("method", ["xfer", "xfer2", "xfer3"])
@pytest.mark.parametrize(
    "settings",
    [
        (1,),
        (-1,),
        (2**70,),
        (1.0,),
        ("a",),
        (None,),
        (0, 2**20),
        (0, 0.5),
        (0, 0, 8),
        (0, 0, 300),
        (0, 0, "b"),
    ],
    ids=repr,
)
def test_settings_of_a_transfer_are_taken_or_refused_as_by_the_package(
    method: str, settings: tuple[Any, ...]
) -> None:
    real, ours = getattr(spidev.SpiDev(), method), getattr(SpiDev(), method)
    assert outcome(lambda: ours([1], *settings)) == outcome(lambda: real([1], *settings))


@pytest.mark.parametrize(
    "size", [0, 1, -1, 4096, 2**31 - 1, 2**31, -(2**31), -(2**31) - 1, 2**63, 2**80, 1.0, "a", None]
)
def test_size_of_a_read_is_taken_or_refused_as_by_the_package(size: Any) -> None:
    real, ours = spidev.SpiDev(), SpiDev()
    assert outcome(lambda: ours.readbytes(size)) == outcome(lambda: real.readbytes(size))


WRONG_CALLS: list[Callable[[Any], object]] = [
    lambda cls: cls().xfer(),
    lambda cls: cls().xfer(values=[1]),
    lambda cls: cls().xfer([1], speed_hz=1),
    lambda cls: cls().xfer([1], 0, 0, 8, 1),
    lambda cls: cls().readbytes(),
    lambda cls: cls().readbytes(len=1),
    lambda cls: cls().writebytes([1], 2),
    lambda cls: cls().writebytes2(),
    lambda cls: cls().open(),
    lambda cls: cls().open(0),
    lambda cls: cls().open(0, 0, 0),
    lambda cls: cls().open(0, client=0),
    lambda cls: cls().open("a", 0),
    lambda cls: cls().open(0, None),
    lambda cls: cls().open(0, 1.0),
    lambda cls: cls().open_path(),
    lambda cls: cls().open_path(5),
    lambda cls: cls().open_path(None),
    lambda cls: cls().close(1),
    lambda cls: cls().fileno(1),
    lambda cls: cls().__exit__(),
    lambda cls: cls(0),
    lambda cls: cls("a"),
    lambda cls: cls(-1, "a"),
    lambda cls: cls(1, 2, 3),
    lambda cls: cls(bus=0, client=0),
    lambda cls: cls(device=0),
    lambda cls: weakref.ref(cls()),
]


@pytest.mark.parametrize("call", WRONG_CALLS)
def test_wrong_call_is_a_type_error_in_both(call: Callable[[Any], object]) -> None:
    with pytest.raises(TypeError):
        call(spidev.SpiDev)
    with pytest.raises(TypeError):
        call(SpiDev)


EQUAL_CALLS: list[Callable[[Any], object]] = [
    lambda cls: cls().open(2**31, 0),
    lambda cls: cls().open(0, 2**80),
    lambda cls: cls().open(-1, 3),
    lambda cls: cls().open(250, 250),
    lambda cls: cls().open(bus=250, device=250),
    lambda cls: cls(250, 250),
    lambda cls: cls().open_path("/dev/spidev250.250"),
    lambda cls: cls().open_path(b"/nowhere/spidev"),
    lambda cls: cls().open_path(path=Path("/nowhere")),
    lambda cls: cls().open_path("/"),
    lambda cls: cls().open_path("/dev/null"),
    lambda cls: cls().open_path("a\0b"),
    lambda cls: cls(-1, 0).fileno(),
    lambda cls: cls(client=0).fileno(),
    lambda cls: cls(-5).fileno(),
    lambda cls: cls().close(),
    lambda cls: cls().__exit__(None, None, None),
    lambda cls: type("Derived", (cls,), {})().fileno(),
    lambda cls: type("Derived", (cls,), {"__init__": lambda self: None})().xfer([1]),
    lambda cls: setattr(cls(), "max_speed", 5),
]


@pytest.mark.usefixtures("echo")
@pytest.mark.parametrize("call", EQUAL_CALLS)
def test_call_has_the_outcome_that_the_package_gives(call: Callable[[Any], object]) -> None:
    assert outcome(lambda: call(SpiDev)) == outcome(lambda: call(spidev.SpiDev))


# At a slave.


def test_open_slave_has_the_settings_of_a_fresh_node(spi: SpiDev) -> None:
    assert [getattr(spi, name) for name in SETTINGS] == [0, 8, 50_000_000, False, *[False] * 5]
    assert spi.fileno() >= 0


def test_closed_again_it_has_none(spi: SpiDev) -> None:
    spi.close()
    assert (spi.fileno(), spi.mode, spi.bits_per_word, spi.max_speed_hz) == (-1, 0, 0, 0)
    with pytest.raises(OSError, match=r"\[Errno 9\] Bad file descriptor"):
        spi.xfer([1])


def test_end_of_the_with_block_closes(echo: InvertingSlave) -> None:
    with SpiDev(0, 0) as spi:
        spi.writebytes([1])
    assert spi.fileno() == -1


def test_open_by_path_and_by_link(echo: InvertingSlave, tmp_path: Path) -> None:
    link = tmp_path / "display"
    link.symlink_to("/dev/spidev0.0")
    for path in ("/dev/spidev0.0", b"/dev/spidev0.0", link):
        with SpiDev() as spi:
            spi.open_path(path)
            spi.writebytes([5])
    assert echo.mosi == [b"\5"] * 3


def test_open_again_takes_the_other_slave(spi: SpiDev, echo: InvertingSlave) -> None:
    spi.open(1, 12)
    assert spi.xfer2([1]) == [254]
    assert echo.messages == []


@pytest.mark.parametrize("method", ["xfer", "xfer2"])
def test_list_is_filled_in_place(spi: SpiDev, method: str) -> None:
    data = [0, 1, 2]
    assert getattr(spi, method)(data) is data
    assert data == [255, 254, 253]


@pytest.mark.parametrize("method", ["xfer", "xfer2"])
@pytest.mark.parametrize(
    ("data", "result"),
    [
        ((0, 1), (255, 254)),
        (b"\x00\x01", [255, 254]),
        (bytearray(b"\x00\x01"), [255, 254]),
        (range(2), [255, 254]),
        (array("B", [0, 1]), [255, 254]),
        ([256, -1, True, Number.SEVEN], [255, 0, 254, 248]),
    ],
    ids=repr,
)
def test_result_of_a_transfer(spi: SpiDev, method: str, data: Any, result: object) -> None:
    came = getattr(spi, method)(copy(data))
    assert came == result
    assert type(came) is type(result)


@pytest.mark.parametrize("data", [[0, 1], (0, 1), b"\x00\x01"], ids=repr)
def test_result_of_xfer3_is_a_tuple(spi: SpiDev, data: Any) -> None:
    came = spi.xfer3(data)
    assert came == (255, 254)
    assert type(came) is tuple
    assert list(data) == [0, 1]


def test_length_of_a_list_counts_in_16_bits(spi: SpiDev, echo: InvertingSlave) -> None:
    data = [7] * 65538
    assert spi.xfer2(data) is data
    assert data == [248, 248] + [7] * 65536
    assert echo.mosi == [b"\7\7"]


@pytest.mark.parametrize("size", [1, 3, 4, 511, 512, 513, 1024, 4096])
def test_transfer_is_one_transaction(spi: SpiDev, echo: InvertingSlave, size: int) -> None:
    data = [number % 256 for number in range(size)]
    assert spi.xfer2(data[:]) == [255 - byte for byte in data]
    (transfer,) = echo.transfers
    assert (transfer.mosi, transfer.deselect) == (bytes(data), True)


@pytest.mark.parametrize(
    ("size", "blocks"), [(4096, [4096]), (4097, [4096, 1]), (10_000, [4096, 4096, 1808])]
)
def test_xfer3_and_writebytes2_go_by_blocks(
    spi: SpiDev, echo: InvertingSlave, size: int, blocks: list[int]
) -> None:
    data = bytes(number % 251 for number in range(size))
    assert spi.xfer3(data) == tuple(255 - byte for byte in data)
    spi.writebytes2(list(data))
    spi.writebytes2(data)
    assert [len(block) for block in echo.mosi] == blocks * 3
    assert b"".join(echo.mosi) == data * 3
    assert all(each.deselect for each in echo.transfers)


@pytest.mark.parametrize(("bufsiz", "blocks"), [(8, [8, 2]), (65536, [10]), (10, [10])])
def test_driver_with_another_buffer(
    echo: InvertingSlave, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bufsiz: int, blocks: list[int]
) -> None:
    (tmp_path / "bufsiz").write_text(f"{bufsiz}\n")
    monkeypatch.setattr(spidev_standin, "BUFSIZ_FILE", str(tmp_path / "bufsiz"))
    with SpiDev(0, 0) as spi:
        spi.xfer3(bytes(10))
        assert [len(block) for block in echo.mosi] == blocks
        if bufsiz == 8:
            with pytest.raises(OSError, match="Message too long") as caught:
                spi.xfer([0] * 9)
            assert caught.value.errno == errno.EMSGSIZE


def test_read_clocks_zeros(spi: SpiDev, echo: InvertingSlave) -> None:
    assert spi.readbytes(3) == [255, 255, 255]
    assert [len(spi.readbytes(size)) for size in (0, -1, 1, 4096, 5000)] == [1, 1, 1, 4096, 4096]
    assert echo.mosi[0] == bytes(3)


@pytest.mark.parametrize(
    "data",
    [[1, 0, 2, 0], b"\1\0\2\0", np.array([1, 2], np.int16), memoryview(b"\1\0\2\0"), array("H", [1, 2])],
    ids=kind,
)
def test_writebytes2_takes_buffers_as_their_bytes(spi: SpiDev, echo: InvertingSlave, data: Any) -> None:
    spi.writebytes2(data)
    assert echo.mosi == [b"\1\0\2\0"]


def test_bad_element_stops_before_its_block(spi: SpiDev, echo: InvertingSlave) -> None:
    with pytest.raises(TypeError, match="Non-Int/Long value"):
        spi.xfer3([1] * 4096 + ["a"])  # type: ignore[list-item]
    assert echo.mosi == [bytes([1]) * 4096]


def test_clock_and_delay_of_a_transfer(spi: SpiDev, echo: InvertingSlave) -> None:
    spi.xfer2([1])
    spi.max_speed_hz = 1_000_000
    spi.xfer2([1])
    spi.xfer2([1], 5_000_000, 3, 8)
    spi.xfer2([1], 80_000_000)
    assert [each.clock_hz for each in echo.transfers] == [50_000_000, 1_000_000, 5_000_000, 50_000_000]
    assert [each.timing.cs_hold for each in echo.transfers] == [None, None, 3000, None]
    assert echo.transfers[2].timing == Timing(cs_hold=3000)


def test_word_sizes_other_than_8_are_refused(spi: SpiDev, echo: InvertingSlave) -> None:
    spi.bits_per_word = 8
    for call in (lambda: setattr(spi, "bits_per_word", 16), lambda: spi.xfer([1], 0, 0, 16)):
        with pytest.raises(OSError, match="Invalid argument") as caught:
            call()
        assert caught.value.errno == errno.EINVAL
    assert spi.bits_per_word == 8
    assert echo.messages == []


@pytest.mark.parametrize("name", FLAGS)
def test_modes_that_the_controller_lacks_are_refused(spi: SpiDev, name: str) -> None:
    setattr(spi, name, False)
    with pytest.raises(OSError, match="Invalid argument"):
        setattr(spi, name, True)
    assert getattr(spi, name) is False


def test_slave_answers_zeros_in_another_mode(
    spi: SpiDev, echo: InvertingSlave, caplog: pytest.LogCaptureFixture
) -> None:
    spi.mode = 3
    assert spi.mode == 3
    assert spi.xfer([1, 2]) == [0, 0]
    assert echo.messages == []
    assert "SPI mode 3" in caplog.text
    spi.mode = 0
    assert spi.xfer([1]) == [254]


def test_clock_of_0_is_refused(spi: SpiDev) -> None:
    with pytest.raises(OSError, match="Invalid argument"):
        spi.max_speed_hz = 0
    assert spi.max_speed_hz == 50_000_000


def test_read0_changes_nothing_without_cshigh(spi: SpiDev, echo: InvertingSlave) -> None:
    spi.read0 = True
    assert spi.xfer([1]) == [254]
    assert echo.mosi == [b"\1"]


# Servers and processes that go away.


@pytest.mark.parametrize("address", ["", "nonsense", "127.0.0.1:1"])
def test_no_server_is_no_such_device(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AISRV_SPI", address)
    with pytest.raises(OSError, match="AISRV_SPI: ") as caught:
        SpiDev(0, 0)
    assert caught.value.errno == errno.ENODEV


def test_server_that_ends_and_another_that_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    with served({"0.0": InvertingSlave()}) as address:
        monkeypatch.setenv("AISRV_SPI", address)
        spi = SpiDev(0, 0)
    with pytest.raises(OSError, match="connection") as caught:
        spi.xfer([1])
    assert caught.value.errno == errno.ESHUTDOWN
    with pytest.raises(OSError, match="no SPI link server") as caught:
        spi.xfer([1])
    assert caught.value.errno == errno.ENODEV
    with served({"0.0": InvertingSlave()}) as address:
        monkeypatch.setenv("AISRV_SPI", address)
        assert spi.xfer([1]) == [254]
    spi.close()


def test_threads_share_an_object(spi: SpiDev, echo: InvertingSlave) -> None:
    wrong: list[object] = []

    def clock(number: int) -> None:
        for _ in range(50):
            came = spi.xfer2([number] * 20)
            if came != [255 - number] * 20:
                wrong.append(came)

    threads = [threading.Thread(target=clock, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert len(echo.messages) == 200


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="forking beside threads is warned of")
def test_child_has_a_connection_of_its_own(spi: SpiDev) -> None:
    child = os.fork()
    if child == 0:
        os._exit(0 if spi.xfer2([9] * 9) == [246] * 9 else 1)
    answers = [spi.xfer2([number]) for number in range(50)]
    assert os.waitpid(child, 0)[1] == 0
    assert answers == [[255 - number] for number in range(50)]
