"""Tables of what crosses the wires: commands, status bits, packets, descriptors, registers."""

import re
import struct
from typing import Final

from aisrv.addons.jacdac.wire.service_spec import document
from aisrv.addons.jacdac.wire.service_tables import SERVICES
from aisrv.protocol.commands import ENGINE_COMMANDS, Command, Spec, Spi, Status, commands_of
from aisrv.protocol.ioserver import IoserverCommand
from aisrv.protocol.usb_descriptors import Descriptor, Descriptors
from aisrv.sensors.acquire_channel import AcquireCommand
from aisrv.sensors.registers import SENSOR_MODELS
from docs.generate.markdown import code, plain, table
from docs.generate.member_docs import member_docs
from flash_server.protocol import FlashCommand, FlashFailure
from phy.spi.transaction import NO_EFFECT

_TYPES: Final = {"B": "u8", "H": "u16", "I": "u32", "x": "u8"}
"""The types of fields by their format in the `struct` module; a byte of padding is a reserved one."""


def command_table() -> str:
    """The engine's commands over USB and local channel ends: code, name, data."""
    docs = member_docs(Command)
    rows = [(f"0x{command:02X}", command.name, plain(docs[command.name])) for command in ENGINE_COMMANDS]
    return table(("code", "command", "data"), rows)


def spi_table() -> str:
    """The commands over SPI: code, name, kind of transaction, data."""
    docs = member_docs(Command)
    rows = [
        (f"0x{command:02X}", command.name, kind.value, plain(docs[command.name]))
        for kind in (Spi.READ, Spi.BLOCKS, Spi.BARE)
        for command in sorted(commands_of(kind))
    ]
    codes = sorted(NO_EFFECT)
    known = [Command(number).name for number in codes if number in list(Command)]
    rows.append((", ".join(f"0x{number:02X}" for number in codes), ", ".join(known), "bare", "No effect."))
    return table(("code", "command", "kind", "data"), rows)


def own_command_table() -> str:
    """The commands that no firmware has: code, name, the ways to the engine, data."""
    docs = member_docs(Command)
    rows = [
        (
            f"0x{each:02X}",
            each.name,
            "USB and SPI" if each.spi else "USB",
            plain(docs[each.name].removeprefix("Ours: ")),
        )
        for each in Command
        if docs[each.name].startswith("Ours:")
    ]
    return table(("code", "command", "over", "data"), rows)


def dissector_tables() -> str:
    """The names that the dissector for Wireshark gives to codes, as tables of Lua."""
    commands = [f'[0x{each:02x}] = "{each.name}"' for each in Command]
    ioserver = [f'[0x{each:02x}] = "{each.name}"' for each in IoserverCommand]
    bits = [f'{{ 0x{bit:02x}, "{bit.name}" }}' for bit in Status]
    tables = {"commands": commands, "ioserver_commands": ioserver, "status_bits": bits}
    return "\n\n".join(_lua(name, entries) for name, entries in tables.items())


def _lua(name: str, entries: list[str]) -> str:
    return "\n".join((f"local {name} = {{", *(f"    {entry}," for entry in entries), "}"))


def status_table() -> str:
    """The bits of a status word: bit, name, meaning."""
    docs = member_docs(Status)
    rows = [
        (f"0x{bit.value:02X}" if bit else "-", str(bit.name), plain(docs[str(bit.name)]))
        for bit in (Status.OKAY, *Status)
    ]
    return table(("bit", "name", "meaning"), rows)


def spec_table() -> str:
    """The words of a spec: word and bytes, type, meaning."""
    docs = member_docs(Spec)
    places = [*Spec.layout(), ("sensor_bytes", Spec.SIZE, "I")]
    rows = [(str(at // 4), str(at % 4), _TYPES[format_], plain(docs[name])) for name, at, format_ in places]
    return table(("word", "byte", "type", "content"), rows)


def ioserver_table() -> str:
    """The commands of the protocol ioserver: code, name, meaning."""
    docs = member_docs(IoserverCommand)
    return table(
        ("code", "name", "what it does"),
        [(str(each.value), each.name, plain(docs[each.name])) for each in IoserverCommand],
    )


def flash_command_table() -> str:
    """The commands of the flash server: code, name, arguments and answer."""
    docs = member_docs(FlashCommand)
    rows = [(f"0x{each.value:02X}", each.name, plain(docs[each.name])) for each in FlashCommand]
    return table(("code", "command", "arguments and answer"), rows)


def flash_failure_table() -> str:
    """The failures that the flash server answers: code, name, meaning."""
    docs = member_docs(FlashFailure)
    return table(
        ("code", "name", "meaning"),
        [(str(each.value), each.name, plain(docs[each.name])) for each in FlashFailure],
    )


def acquire_command_table() -> str:
    """The commands of the acquire task: code, name, arguments and answer."""
    docs = member_docs(AcquireCommand)
    return table(
        ("code", "command", "arguments and answer"),
        [(str(each.value), each.name, plain(docs[each.name])) for each in AcquireCommand],
    )


def descriptor_tables() -> str:
    """The USB descriptors that a device answers: offset, field, type, value."""
    descriptors = Descriptors()
    interface = descriptors.configuration.interfaces[0]
    parts = [
        descriptors.device,
        descriptors.device.qualifier(),
        descriptors.configuration,
        interface,
        *interface.endpoints,
    ]
    blocks = [f"**{_title(each)}**\n\n{_values(each)}" for each in parts]
    strings = [("0", "languages: 0x0409, English (United States)")]
    strings += [(str(number), code(text)) for number, text in enumerate(descriptors.strings, 1)]
    strings.append((str(len(descriptors.strings) + 1), "the serial number, where the board has one"))
    return "\n\n".join((*blocks, "**Strings**\n\n" + table(("index", "text"), strings)))


def sensor_tables() -> str:
    """The registers of each sensor model: number, name, value at reset, access, meaning."""
    blocks = []
    for name, make in SENSOR_MODELS.items():
        model = make()
        rows = [
            (
                f"0x{register.number:02X}",
                register.name,
                f"0x{register.at_reset:02X}",
                "read only" if register.read_only else "read, write",
                register.meaning,
            )
            for register in model.REGISTERS
        ]
        heading = f"**`{name}`**, `{type(model).__name__}`, at I2C address 0x{model.address:02X}"
        blocks.append(f"{heading}\n\n" + table(("register", "name", "at reset", "access", "meaning"), rows))
    return "\n\n".join(blocks)


def jacdac_tables() -> str:
    """The registers, commands and events of each Jacdac service."""
    return document(SERVICES)


def _title(descriptor: Descriptor) -> str:
    kind = type(descriptor).__name__.removesuffix("Descriptor")
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in kind).strip()
    address = getattr(descriptor, "address", None)
    return words.capitalize() if address is None else f"{words.capitalize()} 0x{address:02X}"


def _first_sentence(text: str) -> str:
    return re.split(r"\.(?:\s|$)", text, maxsplit=1)[0]


def _values(descriptor: Descriptor) -> str:
    """The fields of a descriptor as it is sent."""
    sent, docs = type(descriptor).parse(bytes(descriptor)), member_docs(type(descriptor))
    rows = []
    for name, offset, format_ in descriptor.layout():
        value = 0 if format_ == "x" else getattr(sent, name)
        digits = 2 * struct.calcsize(format_)
        rows.append((str(offset), _first_sentence(docs[name]), _TYPES[format_], f"0x{value:0{digits}X}"))
    return table(("offset", "field", "type", "value"), rows)
