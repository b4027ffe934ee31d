"""An AI server in memory, as the tests' stand-in for hardware: packets in, packets out, no threads, no time.

Written from "XCORE AI server: numbers and wire behavior" alone. `Device` is the device behind its two bulk
endpoints; `Backend` is the host's USB stack in front of it, as a pyusb backend. A transfer that would wait
times out at once. The "model" is any bytes with `TFL3` at 4; an inference inverts input 0 into output 0.
"""

import struct
from array import array
from collections import deque
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import usb.backend
from usb.backend import libusb1
from usb.core import USBError, USBTimeoutError

PACKET = 512
NO_MODEL, MODEL_ERR, INFER_ERR, BAD_CMD = 0x04, 0x08, 0x10, 0x20


class Stall(Exception):
    """The endpoint is halted."""


class Nak(Exception):
    """The endpoint has nothing to give, or cannot take anything."""


class Refused(Exception):
    def __init__(self, status: int, line: str) -> None:
        self.status = status
        self.line = line


@dataclass
class Engine:
    """One engine's state and the answers to its commands."""

    inputs: list[int] = field(default_factory=lambda: [16])
    outputs: list[int] = field(default_factory=lambda: [16])
    largest_model: int = 1 << 23
    model: bytes | None = None
    memory: int = 0
    errors: int = 0
    log: bytes = b""
    input_data: list[bytes] = field(default_factory=list)
    output_data: list[bytes] = field(default_factory=list)
    timings: list[int] = field(default_factory=list)
    gpio: bytes = b"\x00"
    mode: bytes = b"\x00"
    thresholds: bytearray = field(default_factory=lambda: bytearray([0x80] * 4))
    fails: dict[int, int] = field(default_factory=dict)
    """Commands that fail with a status, whatever they are given."""
    seen: list[tuple[int, int, bytes]] = field(default_factory=list)
    """Every command with its tensor and data."""

    def get(self, command: int, tensor: int) -> bytes:
        if command == 0x01:
            errors, self.errors = self.errors, 0
            return struct.pack("<I", errors)
        if command == 0x10:
            return struct.pack("<I", 0x12345678)
        if command == 0x0F:
            return self.log.ljust(256, b"\0")
        if command == 0x08:
            loaded = self.model is not None
            sizes = (sum(self.inputs), sum(self.outputs), len(self.timings)) if loaded else (0, 0, 0)
            return struct.pack("<2B3H3I", 1, 2, 512, 0, 0, *sizes)
        if command == 0x0E:
            return struct.pack("<I", 0)
        if command == 0x11:
            return self.gpio
        if command == 0x12:
            return bytes(self.thresholds)
        if command == 0x13:
            return self.mode
        if command in (0x03, 0x05, 0x09, 0x0A, 0x0B):
            self._needs_model()
            if command == 0x09:
                return struct.pack(f"<{len(self.timings)}I", *self.timings)
            if tensor >= len(self.inputs if command in (0x03, 0x0A) else self.outputs):
                raise Refused(BAD_CMD, f"no tensor {tensor}")
            if command in (0x0A, 0x0B):
                return struct.pack("<I", (self.inputs if command == 0x0A else self.outputs)[tensor])
            return (self.input_data if command == 0x03 else self.output_data)[tensor]
        raise Refused(BAD_CMD, f"unknown command {command:#x}")

    def set(self, command: int, tensor: int, data: bytes) -> None:
        if command in (0x86, 0x87):
            self.model = None
            if data[4:8] != b"TFL3":
                raise Refused(MODEL_ERR, "not a TFL3 file")
            if len(data) > self.largest_model:
                raise Refused(MODEL_ERR, f"model of {len(data)} bytes does not fit")
            self.model, self.memory = data, command
            self.input_data = [bytes(size) for size in self.inputs]
            self.output_data = [bytes(size) for size in self.outputs]
        elif command == 0x83:
            self._needs_model()
            if tensor >= len(self.inputs) or len(data) != self.inputs[tensor]:
                raise Refused(BAD_CMD, f"input {tensor} of {len(data)} bytes")
            self.input_data[tensor] = data
        elif command == 0x84:
            self._needs_model()
            source = self.input_data[0].ljust(self.outputs[0], b"\0")[: self.outputs[0]]
            self.output_data[0] = bytes(255 - byte for byte in source)
        elif command == 0x91:
            self.gpio = data
        elif command == 0x93:
            self.mode = data
        elif command == 0x92:
            if len(data) != 2 or data[0] >= 4:
                raise Refused(BAD_CMD, "threshold")
            self.thresholds[data[0]] = data[1]
        else:
            raise Refused(BAD_CMD, f"unknown command {command:#x}")

    def perform(self, command: int, tensor: int, data: bytes) -> tuple[int, bytes]:
        """Status and, for a GET, its data."""
        self.seen.append((command, tensor, data))
        try:
            if command in self.fails:
                raise Refused(self.fails[command], f"told to fail {command:#x}")
            if command & 0x80:
                self.set(command, tensor, data)
                return 0, b""
            return 0, self.get(command, tensor)
        except Refused as refusal:
            self.errors |= refusal.status & 0x3C
            self.log += refusal.line.encode() + b"\n"
            return refusal.status, b""

    def _needs_model(self) -> None:
        if self.model is None:
            raise Refused(NO_MODEL, "no model is loaded")


class Device:
    """The data task behind the endpoints 0x01 and 0x81."""

    def __init__(self, *engines: Engine, keeps_errors: bool = True, stuck_on: int | None = None) -> None:
        self.engines = engines or (Engine(),)
        self.keeps_errors = keeps_errors
        self.stuck_on = stuck_on
        """A command that this device never finishes."""
        self.resets = 0
        self.configure()

    @property
    def engine(self) -> Engine:
        return self.engines[0]

    def configure(self) -> None:
        self.resets += 1
        self.halted: set[int] = set()
        self._pending: tuple[int, int, int, bool] | None = None
        self._data = bytearray()
        self._in: deque[bytes] = deque()
        self._stuck = False

    def clear_halt(self, endpoint: int) -> None:
        self.halted.discard(endpoint)

    def out_packet(self, packet: bytes) -> None:
        if 0x01 in self.halted:
            raise Stall
        if self._stuck or self.halted or (self._in and not self._pending):
            raise Nak
        if self._pending:
            self._data += packet
            if len(packet) < PACKET:
                pending, self._pending = self._pending, None
                data, self._data = bytes(self._data), bytearray()
                self._perform(*pending, data)
        elif len(packet) in (3, 12):
            command, engine, tensor = struct.unpack("<3B" if len(packet) == 3 else "<3I", packet)
            pending = command, engine, tensor, len(packet) == 3
            if command & 0x80:
                self._pending = pending
            else:
                self._perform(*pending, b"")

    def in_packet(self) -> bytes:
        if 0x81 in self.halted:
            raise Stall
        if not self._in:
            raise Nak
        return self._in.popleft()

    def _perform(self, command: int, engine: int, tensor: int, classic: bool, data: bytes) -> None:
        if command == self.stuck_on:
            self._stuck = True
            return
        if engine < len(self.engines):
            status, answer = self.engines[engine].perform(command, tensor, data)
            if not self.keeps_errors:
                self.engines[engine].errors = 0
        else:
            status, answer = BAD_CMD, b""
        if not classic:
            self._in.append(struct.pack("<I", status))
        elif status:
            self.halted = {0x01, 0x81}
        if not status and not command & 0x80:
            whole = len(answer) // PACKET * PACKET
            self._in.extend(answer[i : i + PACKET] for i in range(0, whole, PACKET))
            self._in.append(answer[whole:])


class Backend(usb.backend.IBackend):  # type: ignore[misc]  # pyusb has no types
    """One device as libusb would show it, with libusb's rules about claims and configurations."""

    def __init__(self, device: Device, serial: str = "") -> None:
        super().__init__()
        self.device = device
        self.strings = {1: "XMOS", 2: "xAISRV", 3: serial}
        self.serial_index = 3 if serial else 0
        self.claimed = False
        self.open_handles = 0
        self.gone = False
        self.calls: list[str] = []
        """Transfers as text: `out 3`, `in 4`."""

    def enumerate_devices(self) -> list[str]:
        return ["the device"]

    def get_device_descriptor(self, dev: str) -> SimpleNamespace:
        return SimpleNamespace(
            idVendor=0x20B1, idProduct=0xA15E, bus=1, address=4,
            iManufacturer=1, iProduct=2, iSerialNumber=self.serial_index,
        )  # fmt: skip

    def open_device(self, dev: str) -> str:
        self.open_handles += 1
        return "the handle"

    def close_device(self, dev_handle: str) -> None:
        self.open_handles -= 1
        self.claimed = False

    def set_configuration(self, dev_handle: str, config_value: int) -> None:
        self._check()
        if self.claimed:
            raise USBError("busy", libusb1.LIBUSB_ERROR_BUSY, 16)
        assert config_value == 1
        self.device.configure()

    def claim_interface(self, dev_handle: str, intf: int) -> None:
        self._check()
        assert intf == 0
        if self.claimed:
            raise USBError("busy", libusb1.LIBUSB_ERROR_BUSY, 16)
        self.claimed = True

    def release_interface(self, dev_handle: str, intf: int) -> None:
        self.claimed = False

    def clear_halt(self, dev_handle: str, ep: int) -> None:
        self._check()
        self.calls.append(f"clear {ep:#04x}")
        self.device.clear_halt(ep)

    def ctrl_transfer(
        self,
        dev_handle: str,
        request_type: int,
        request: int,
        value: int,
        index: int,
        data: Any,
        timeout: int,
    ) -> int:
        if (request_type, request, value) == (0x82, 0, 0):
            data[0] = index in self.device.halted
            return 2
        assert (request_type, request, value >> 8, index) == (0x80, 6, 3, 0x0409)
        text = self.strings[value & 0xFF].encode("utf-16-le")
        descriptor = bytes([len(text) + 2, 3]) + text
        memoryview(data)[: len(descriptor)] = array("B", descriptor)
        return len(descriptor)

    def bulk_write(self, dev_handle: str, ep: int, intf: int, data: "array[int]", timeout: int) -> int:
        self._check()
        assert (ep, intf, self.claimed) == (0x01, 0, True)
        content = data.tobytes()
        self.calls.append(f"out {len(content)}")
        for start in range(0, len(content), PACKET) or (0,):
            try:
                self.device.out_packet(content[start : start + PACKET])
            except Stall:
                raise USBError("pipe", libusb1.LIBUSB_ERROR_PIPE, 32) from None
            except Nak:
                if start:
                    return start
                raise USBTimeoutError("timeout", libusb1.LIBUSB_ERROR_TIMEOUT, 110) from None
        return len(content)

    def bulk_read(self, dev_handle: str, ep: int, intf: int, buff: "array[int]", timeout: int) -> int:
        self._check()
        assert (ep, intf, self.claimed) == (0x81, 0, True)
        received = 0
        while received < len(buff):
            try:
                packet = self.device.in_packet()
            except Stall:
                raise USBError("pipe", libusb1.LIBUSB_ERROR_PIPE, 32) from None
            except Nak:
                if received:
                    break
                raise USBTimeoutError("timeout", libusb1.LIBUSB_ERROR_TIMEOUT, 110) from None
            buff[received : received + len(packet)] = array("B", packet)
            received += len(packet)
            if len(packet) < PACKET:
                break
        self.calls.append(f"in {received}")
        return received

    def _check(self) -> None:
        if self.gone:
            raise USBError("no device", libusb1.LIBUSB_ERROR_NO_DEVICE, 19)
