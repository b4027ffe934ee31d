"""The tables of the wires, row by row against what the protocols send."""

import re

from aisrv.protocol.commands import Command, Spec, Status
from aisrv.protocol.usb_descriptors import Descriptors
from aisrv.sensors.registers import SENSOR_MODELS
from docs.generate.wires import (
    acquire_command_table,
    command_table,
    descriptor_tables,
    flash_command_table,
    flash_failure_table,
    ioserver_table,
    sensor_tables,
    spec_table,
    spi_table,
    status_table,
)
from flash_server.protocol import FlashCommand, FlashFailure


def cells(text: str) -> list[list[str]]:
    """The rows of all tables in a text, without their headers."""
    return [line.strip("| ").split(" | ") for line in text.splitlines() if re.match(r"\| (0x|- |\d)", line)]


def test_every_command_over_usb_has_its_code() -> None:
    found = {row[1]: int(row[0], 16) for row in cells(command_table())}
    assert found == {each.name: each.value for each in Command if each is not Command.SET_SERVER}


def test_every_status_has_its_bit() -> None:
    found = {row[1]: 0 if row[0] == "-" else int(row[0], 16) for row in cells(status_table())}
    assert found == {"OKAY": 0} | {str(each.name): each.value for each in Status}


def test_spi_has_the_write_without_bit_7() -> None:
    assert ["0x04", "SET_SERVER", "write"] in [row[:3] for row in cells(spi_table())]


def test_the_words_of_a_spec_are_where_it_has_them() -> None:
    spec = Spec(1, 2, 3, 4, 5, 6, 7, 8, sensor_bytes=9)
    sizes = {"u8": 1, "u16": 2, "u32": 4}
    data = bytes(spec)
    places = [(int(word) * 4 + int(byte), sizes[kind]) for word, byte, kind, _ in cells(spec_table())]
    assert [int.from_bytes(data[at : at + size], "little") for at, size in places] == list(range(1, 10))


def test_the_values_of_the_descriptors_are_their_bytes() -> None:
    found = Descriptors()
    text = descriptor_tables().split("**Strings**")[0]
    data = b"".join(int(row[3], 16).to_bytes((len(row[3]) - 2) // 2, "little") for row in cells(text))
    assert data == bytes(found.device) + bytes(found.device.qualifier()) + bytes(found.configuration)


def test_the_codes_of_the_ioserver() -> None:
    assert [row[0] for row in cells(ioserver_table())] == ["1", "2", "3", "7", "8"]


def test_flash_and_acquire_commands_have_their_codes() -> None:
    assert {row[1]: int(row[0], 16) for row in cells(flash_command_table())} == {
        each.name: each.value for each in FlashCommand
    }
    assert {row[1]: int(row[0]) for row in cells(flash_failure_table())} == {
        each.name: each.value for each in FlashFailure
    }
    assert [row[:2] for row in cells(acquire_command_table())][:2] == [["0", "DESCRIBE"], ["1", "EXPOSE"]]


def test_the_registers_of_the_sensors_answer_what_the_tables_say() -> None:
    for name, make in SENSOR_MODELS.items():
        section = sensor_tables().split(f"**`{name}`**")[1].split("**`")[0]
        model = make()
        for row in cells(section):
            number, at_reset = int(row[0], 16), int(row[2], 16)
            assert model.read(number) == at_reset
            model.write(number, at_reset ^ 1)
            assert (model.read(number) == at_reset) == (row[3] == "read only")
