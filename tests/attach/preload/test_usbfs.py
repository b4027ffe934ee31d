"""The ioctls of usbfs, against the kernel's own header as this machine's C compiler reads it."""

import struct
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aisrv.attach.preload.usbfs import Capability, Ioctl, Urb, UrbFlag, UrbType
from tests.support.peers.preloaded_usb import compiled
from tests.support.programs import missing, run_process

HEADER = Path("/usr/include/linux/usbdevice_fs.h")
INT = st.integers(-(2**31), 2**31 - 1)
UINT = st.integers(0, 2**32 - 1)
ADDRESS = st.integers(0, 2**64 - 1)

PROGRAM = """
#include <linux/usbdevice_fs.h>
#include <stdio.h>
#include <stddef.h>
#include <sys/ioctl.h>
#define SHOW(name) printf(#name " %lu\\n", (unsigned long)(name));
#define FIELD(name) printf(#name " %zu\\n", offsetof(struct usbdevfs_urb, name));
int main(void)
{
"""


def constants_of(tmp_path: Path, *statements: str) -> dict[str, int]:
    """What a C program with these statements prints."""
    if not HEADER.exists():
        missing(f"no {HEADER}: install the package linux-libc-dev")
    source = tmp_path / "constants.c"
    source.write_text(PROGRAM + "\n".join(statements) + "\nreturn 0;\n}\n")
    program = compiled(source, tmp_path / "constants")
    lines = run_process([program], check=True).stdout.splitlines()
    return {name: int(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_codes_are_those_of_the_header(tmp_path: Path) -> None:
    names = [f"USBDEVFS_{each.name}" for each in Ioctl]
    assert constants_of(tmp_path, *(f"SHOW({name})" for name in names)) == {
        f"USBDEVFS_{each.name}": each.value for each in Ioctl
    }


def test_numbers_are_those_of_the_header(tmp_path: Path) -> None:
    ours = {
        **{f"USBDEVFS_CAP_{each.name}": each.value for each in Capability},
        **{f"USBDEVFS_URB_TYPE_{each.name}": each.value for each in UrbType},
        **{f"USBDEVFS_URB_{each.name}": each.value for each in UrbFlag},
        "sizeof(struct usbdevfs_urb)": Urb.SIZE,
    }
    assert constants_of(tmp_path, *(f"SHOW({name})" for name in ours)) == ours


def test_fields_lie_where_the_header_puts_them(tmp_path: Path) -> None:
    fields = ("type", "endpoint", "status", "flags", "buffer", "buffer_length", "actual_length")
    more = ("start_frame", "number_of_packets", "error_count", "signr", "usercontext")
    offsets = constants_of(tmp_path, *(f"FIELD({name})" for name in fields + more))
    urb = bytes(Urb(0xA1, 0xA2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12))
    values = [urb[offset] for offset in offsets.values()]
    assert values == [0xA1, 0xA2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]


@given(st.tuples(st.integers(0, 255), st.integers(0, 255), INT, UINT, ADDRESS, INT, INT, INT, INT, INT, UINT))
def test_request_there_and_back(fields: tuple[int, ...]) -> None:
    urb = Urb(*fields)
    assert Urb.from_bytes(bytes(urb)) == urb


@pytest.mark.parametrize("size", [0, 1, 55, 57, 64])
def test_request_of_another_size(size: int) -> None:
    with pytest.raises(ValueError, match=f"has 56 bytes, not {size}"):
        Urb.from_bytes(bytes(size))


def test_result_of_a_request_leaves_the_rest() -> None:
    before = struct.pack("=BBxxiIxxxxQiiiiiIQ", 3, 0x81, 0, 1, 2**40, 512, 0, 7, 8, 0, 9, 2**50)
    after = struct.pack("=BBxxiIxxxxQiiiiiIQ", 3, 0x81, -32, 1, 2**40, 512, 100, 7, 8, 0, 9, 2**50)
    assert bytes(Urb.from_bytes(before).ended(-32, 100)) == after
