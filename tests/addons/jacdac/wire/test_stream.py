"""Frames in a stream with a length byte before each, however it is cut."""

from hypothesis import given
from hypothesis import strategies as st

from aisrv.addons.jacdac.wire.frame import ServicePacket, report_frame
from aisrv.addons.jacdac.wire.stream import FrameSplitter, with_length

ONE = report_frame(0x11, ServicePacket(1, 0x1101, b"one!"))
TWO = report_frame(0xFEFEFEFE, ServicePacket(1, 0x1101, b"\xfe\xfc\xfe\xfd\xf8" * 9))


@given(st.lists(st.sampled_from([ONE, TWO, b"", "large"]), max_size=8), st.integers(1, 30))
def test_frames_are_found_in_a_stream(parts: list[bytes | str], size: int) -> None:
    stream = b"".join(
        b"\xff\x2c\x01" + bytes(300) if isinstance(part, str) else with_length(part) for part in parts
    )
    splitter = FrameSplitter()
    found = [f for at in range(0, len(stream), size) for f in splitter.feed(stream[at : at + size])]
    assert found == [part for part in parts if part and isinstance(part, bytes)]
