"""Events of devices: what libudev makes of them is in test_preload; here who gets them, and who does not."""

import logging
import socket
from pathlib import Path

import pytest

from aisrv.attach.preload.uevents import Action, Uevents, uevent


def listener(path: Path) -> socket.socket:
    """A socket as umockdev's library makes one for a program."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_RAW)
    sock.bind(str(path))
    sock.setblocking(False)
    return sock


def test_a_message_is_a_header_and_lines_that_end_in_zeros() -> None:
    data = uevent(Action.ADD, "/devices/x", 7, "MAJOR=189\nDEVTYPE=usb_device\n")
    header, lines = data[:40], data[40:]
    assert header[:12] == b"libudev\0\xfe\xed\xca\xfe"
    assert lines == (
        b"ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=usb\0SEQNUM=7\0MAJOR=189\0DEVTYPE=usb_device\0"
    )
    assert [int.from_bytes(header[at : at + 4], "little") for at in (12, 16, 20)] == [40, 40, len(lines)]


def test_all_who_listen_are_told_in_order(tmp_path: Path) -> None:
    events = Uevents(tmp_path)
    with listener(tmp_path / "event4") as one, listener(tmp_path / "event11") as other:
        events.send(Action.REMOVE, "/devices/x", "")
        events.send(Action.ADD, "/devices/x", "")
        for each in (one, other):
            assert each.recv(4096).endswith(b"ACTION=remove\0DEVPATH=/devices/x\0SUBSYSTEM=usb\0SEQNUM=1\0")
            assert each.recv(4096).endswith(b"ACTION=add\0DEVPATH=/devices/x\0SUBSYSTEM=usb\0SEQNUM=2\0")


def test_a_program_that_is_gone_or_listens_otherwise_keeps_nobody_from_being_told(tmp_path: Path) -> None:
    listener(tmp_path / "event3").close()
    (tmp_path / "event5").mkdir()
    (tmp_path / "event6").touch()
    with listener(tmp_path / "event4") as other, socket.socket(socket.AF_UNIX) as stream:
        stream.bind(str(tmp_path / "event7"))
        stream.listen()
        Uevents(tmp_path).send(Action.ADD, "/devices/x", "")
        assert b"ACTION=add" in other.recv(4096)


def test_a_program_that_takes_nothing_is_not_waited_for(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    events = Uevents(tmp_path)
    with listener(tmp_path / "event3"), caplog.at_level(logging.WARNING):
        while not caplog.messages:
            events.send(Action.ADD, "/devices/x", "A=" + "a" * 4000)
    assert caplog.messages == ["a program takes no events of devices, and misses one: add /devices/x"]
