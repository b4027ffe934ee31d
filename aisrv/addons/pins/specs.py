"""The tables `[[peripherals]]` and `[[pins]]` of a board, and what each kind of peripheral has."""

import enum
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from aisrv.values.settings.tables import Integer, Number, Table


class PeripheralKind(enum.Enum):
    """Kind of a peripheral."""

    I2C_TARGET = "i2c-target"
    SPI_TARGET = "spi-target"
    SPI_PORT = "spi-port"
    SPI_CONTROLLER = "spi-controller"
    UART = "uart"
    I2S_SOURCE = "i2s-source"
    I2S_SINK = "i2s-sink"
    I2S_CLOCK = "i2s-clock"
    PARALLEL_CAMERA = "parallel-camera"
    BUTTON = "button"
    LED = "led"


class KindFacts(Struct, frozen=True):
    """The signals of a kind and its settings; those in `optional` may be on no pin."""

    signals: tuple[str, ...]
    settings: tuple[str, ...]
    required: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


_SPI: Final = ("cs", "clk", "mosi", "miso")
_I2S: Final = ("bclk", "lrclk", "data")
_CAMERA: Final = (*(f"d{bit}" for bit in range(8)), "pclk", "hsync", "vsync")

KINDS: Final[Mapping[PeripheralKind, KindFacts]] = MappingProxyType(
    {
        PeripheralKind.I2C_TARGET: KindFacts(("scl", "sda"), ("address", "registers", "speed", "stretch")),
        PeripheralKind.SPI_TARGET: KindFacts(_SPI, ("mode", "answer")),
        PeripheralKind.SPI_PORT: KindFacts(_SPI, ()),
        PeripheralKind.SPI_CONTROLLER: KindFacts(_SPI, ("mode", "clock", "send", "every")),
        PeripheralKind.UART: KindFacts(
            ("rx", "tx"), ("baud", "bits", "parity", "stop", "input", "output"), optional=("rx", "tx")
        ),
        PeripheralKind.I2S_SOURCE: KindFacts(_I2S, ("input",), ("input",)),
        PeripheralKind.I2S_SINK: KindFacts(_I2S, ("output", "width", "rate"), ("output",)),
        PeripheralKind.I2S_CLOCK: KindFacts(("bclk", "lrclk"), ("rate", "slot")),
        PeripheralKind.PARALLEL_CAMERA: KindFacts(_CAMERA, ("source", "clock"), ("source",)),
        PeripheralKind.BUTTON: KindFacts(("pin",), ("active", "presses", "hold", "bounces")),
        PeripheralKind.LED: KindFacts(("pin",), ("active",)),
    }
)


class PeripheralSpec(Table, frozen=True):
    """A peripheral on pins, for each; what its kind does not have may not be given."""

    name: str
    """Name, as pins and messages give it."""
    kind: PeripheralKind
    """Kind of the peripheral, which decides on its signals and settings."""
    address: Integer | None = None
    """Address of an I2C target, seven bits. Default: that of its registers, or 0x10."""
    registers: str | None = None
    """Registers of an I2C target: generic, gc2145, memory, sensor, which is the board's, or `module:Class`.
    Default: `"generic"`."""
    speed: str | None = None
    """Speed whose times an I2C target checks: standard, fast or fast-plus. Default: `"fast"`."""
    stretch: Number | None = None
    """Microseconds that an I2C target holds SCL low after each acknowledge. Default: `0`."""
    mode: Integer | None = None
    """SPI mode, 0 to 3. Default: `0`."""
    answer: str | None = None
    """Bytes with which an SPI target answers each transaction, in hexadecimal. Default: zeros."""
    clock: Integer | None = None
    """Clock of an SPI controller, or of a camera's pixels, in Hz. Default: `10000000`."""
    send: str | None = None
    """Bytes that an SPI controller sends, in hexadecimal, a transaction. Default: none."""
    every: Number | None = None
    """Seconds between the transactions of an SPI controller. Default: it sends once."""
    baud: Integer | None = None
    """Bits a second of a UART. Default: `115200`."""
    bits: Integer | None = None
    """Data bits of a UART, 5 to 9. Default: `8`."""
    parity: str | None = None
    """Parity of a UART: none, even or odd. Default: `"none"`."""
    stop: Integer | None = None
    """Stop bits of a UART, 1 or 2. Default: `1`."""
    input: Path | None = None
    """File of the bytes that a UART sends at start, or an I2S source's WAV file. Default: none."""
    output: Path | None = None
    """File for the bytes that a UART receives, or an I2S sink's WAV file. Default: a UART logs lines."""
    width: Integer | None = None
    """Bits of a sample of an I2S sink: 16, 24 or 32. Default: `16`."""
    rate: Integer | None = None
    """Frames a second of an I2S clock, and in the WAV file of a sink. Default: `48000`."""
    slot: Integer | None = None
    """Bits of a slot of an I2S clock. Default: `32`."""
    source: str | None = None
    """Frames of a camera: a source, as that of `[sensor]`, with its size."""
    active: str | None = None
    """Level of a pressed button or a lit LED: low or high. Default: a button's is low, an LED's high."""
    presses: tuple[Number, ...] | None = None
    """Seconds at which a button is pressed, from the start. Default: never."""
    hold: Number | None = None
    """Seconds that a button is pressed. Default: `0.1`."""
    bounces: tuple[Integer, ...] | None = None
    """Ticks of contact and gap in turn before a button's contact stays. Default: none."""

    @property
    def signals(self) -> tuple[str, ...]:
        """The signals of its kind."""
        return KINDS[self.kind].signals


class PinSpec(Table, frozen=True):
    """A pin with a peripheral or a stimulus on it, for each."""

    port: str
    """Pin, by its port of one bit, `1A`, a wider port's bit, `4B.2`, or its own name, `X0D12`."""
    to: str = ""
    """Signal of a peripheral that is on the pin, as `sensor.scl`; a button or an LED needs no signal."""
    tile: Integer = 0
    """Tile of the pin."""
    stimulus: Path | None = None
    """File whose levels drive the pin from the start on: `.vcd` or `.csv`."""
    signal: str = ""
    """Signal of that file. Default: the pin's name, what it is `to`, or the only one."""

    @property
    def target(self) -> tuple[str, str]:
        """The name of the peripheral and its signal, which is empty where none is written."""
        name, _, signal = self.to.partition(".")
        return name, signal


def signals_of(pins: Sequence[PinSpec], peripheral: PeripheralSpec) -> dict[str, PinSpec]:
    """Return the pin of each signal of a peripheral, of a board that has been checked."""
    ours = [pin for pin in pins if pin.target[0] == peripheral.name]
    return {pin.target[1] or peripheral.signals[0]: pin for pin in ours}
