"""Commands by their code, and the reset: raw, reset."""

from pathlib import Path

import click

from aisrv.protocol.commands import Command, command_name, is_set
from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import FILE, NEW_FILE
from aisrv.values.regular_file import read_regular
from host_tools.commands.settings import NUMBER, Byte, HostSettings, pass_settings


class CommandCode(Byte):
    """A command by its name or number."""

    name = "command"
    example = "a command; write GET_ID, 0x10 or 16"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Return the code."""
        name = str(value).upper()
        return Command[name] if name in Command.__members__ else super().convert(value, param, ctx)


class HexBytes(click.ParamType[bytes]):
    """Bytes in hexadecimal."""

    name = "hex"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> bytes:
        """Return the bytes."""
        try:
            return bytes.fromhex(str(value))
        except ValueError:
            self.fail(f"{value!r} is not hexadecimal bytes; write them as in 01ff or '01 ff'", param, ctx)


@click.command(
    short_help="Send any command by its code.",
    epilog=examples(
        "aisrv-host raw GET_ID",
        "aisrv-host raw 0x05 --tensor 1 --output second.bin",
        "aisrv-host raw SET_OUTPUT_GPIO_THRESH --data 02fb",
        "aisrv-host raw SET_INPUT_TENSOR --file input.bin",
    ),
)
@click.argument("code", metavar="COMMAND", type=CommandCode())
@click.option("--tensor", type=NUMBER, default=0, show_default=True, help="The tensor number in the command.")
@click.option("--data", type=HexBytes(), help="Data of a SET, in hexadecimal.")
@click.option("--file", type=FILE, help="A file with the data of a SET.")
@click.option("--output", type=NEW_FILE, help="Write the data of a GET to this file.")
@pass_settings
def raw(
    settings: HostSettings,
    code: int,
    tensor: int,
    data: bytes | None,
    file: Path | None,
    output: Path | None,
) -> None:
    """Send COMMAND, a name or a number, known or not, and show the data that it answers.

    Bit 7 of a number tells a SET, which takes data. Only the device checks the command.
    """
    from host_tools.commands.report import hex_dump
    from host_tools.tensors.files import write_file

    if data is not None and file is not None:
        raise click.UsageError("--data or --file, not both")
    content = read_regular(file) if file is not None else data or b""
    if content and not is_set(code):
        raise click.UsageError(f"{command_name(code)} is a GET, which takes no data")
    with settings.connect() as server:
        answer = server.command(code, tensor, content)
    if output is not None:
        write_file(output, answer)
    result: dict[str, object] = {"command": code, "tensor": tensor, "sent": len(content)}
    if not is_set(code):
        result |= {"bytes": len(answer), "hex": answer.hex()}
    if output is not None:
        result["output"] = str(output)

    def show() -> None:
        if is_set(code):
            click.echo(f"{command_name(code)}: {len(content)} bytes sent")
        elif output is not None:
            click.echo(f"{output}: {len(answer)} bytes")
        elif answer:
            click.echo(hex_dump(answer))
        else:
            click.echo("no data")

    settings.answer(result, show)


@click.command(
    short_help="Make the device abandon its command.",
    epilog=examples("aisrv-host reset", "aisrv-host --device usb:1-4 reset"),
)
@pass_settings
def reset(settings: HostSettings) -> None:
    """Set the USB configuration anew: the device abandons what it was doing, and keeps its model.

    That also clears the halts of the endpoints. Over SPI the next command ends one
    that was cut short: there is no reset.
    """
    with settings.connect() as server:
        server.reset()
    settings.answer({"reset": True}, lambda: click.echo("reset; the model stays"))
