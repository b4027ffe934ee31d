"""The sensor: acquire, stream, frame, i2c."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.file_types import NEW_FILE
from aisrv.values.extras import import_failure
from host_tools.commands.settings import Byte, HostSettings, pass_settings
from host_tools.errors import TensorError

if TYPE_CHECKING:
    from aisrv.protocol.sensor_format import SensorFormat


class Numbers(click.ParamType[tuple[int, ...]]):
    """Numbers between separators, as `640x480`; each may be hexadecimal."""

    def __init__(self, example: str, count: int, largest: int) -> None:
        self.name = example
        self._count = count
        self._largest = largest

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        """Return the numbers; a message with an example where they are none."""
        try:
            numbers = tuple(
                int(each, 0) for each in str(value).replace(":", ",").replace("x", ",").split(",")
            )
        except ValueError:
            numbers = ()
        if len(numbers) != self._count or not all(0 <= each <= self._largest for each in numbers):
            self.fail(f"{value!r}: write {self._count} numbers as in {self.name}", param, ctx)
        return numbers


PICTURES: Final = ("bayer", "yuv", "rgb")
"""Encodings that are pictures: names of `PixelEncoding`, in its order."""
SIZE: Final = Numbers("640x480", 2, 0xFFFF)


@click.command(
    short_help="Acquire one frame.",
    epilog=examples(
        "aisrv-host acquire",
        "aisrv-host infer                                    (on the frame that was acquired)",
        "aisrv-host acquire --region 0:480,0:480 --size 96x96",
    ),
)
@click.option(
    "--region",
    metavar="X:END,Y:END",
    type=Numbers("0:640,0:480", 4, 0xFFFF),
    help="The part of the frame: first column:end,first row:end. [default: all of it]",
)
@click.option(
    "--size",
    metavar="WxH",
    type=SIZE,
    help="Width and height of the part in the input tensor; with --region.",
)
@pass_settings
def acquire(
    settings: HostSettings, region: tuple[int, int, int, int] | None, size: tuple[int, int] | None
) -> None:
    """Acquire one frame of the sensor into the input tensor; a stream ends.

    Without --region it is the whole frame at the input tensor's size.
    """
    if (region is None) != (size is None):
        raise click.UsageError("--region and --size go together")
    with settings.connect() as server:
        server.acquire_single(None if region is None or size is None else (*region, *size))
    settings.answer(
        {"acquired": True, "region": region, "size": size}, lambda: click.echo("one frame acquired")
    )


@click.command(
    short_help="Start or end a stream of frames.",
    epilog=examples("aisrv-host stream on", "aisrv-host stream off", "aisrv-host stream"),
)
@click.argument("state", type=click.Choice(["on", "off"]), required=False)
@pass_settings
def stream(settings: HostSettings, state: str | None) -> None:
    """Start (on) or end (off) a stream: frames are acquired and inferred one after another.

    Without an argument, show whether one is on. Ending it takes one more frame.
    """
    with settings.connect() as server:
        if state == "on":
            server.acquire_stream()
        elif state == "off":
            server.acquire_single()
        mode = "stream" if state == "on" else "single" if state else server.acquire_mode().name.lower()
    settings.answer({"mode": mode}, lambda: click.echo(mode))


@click.command(
    short_help="Save the sensor's latest frame.",
    epilog=examples(
        "aisrv-host frame photo.png",
        "aisrv-host frame photo.png --acquire",
        "aisrv-host frame frame.raw",
        "aisrv-host frame photo.png --size 640x480 --encoding bayer    (of hardware, which does not say)",
    ),
)
@click.argument("file", type=NEW_FILE)
@click.option("--acquire", "acquire_first", is_flag=True, help="Acquire a new frame first.")
@click.option("--size", metavar="WxH", type=SIZE, help="Width and height, if the device does not say.")
@click.option(
    "--encoding",
    type=click.Choice(PICTURES),
    default="bayer",
    show_default=True,
    help="With --size: how bytes are pixels.",
)
@pass_settings
def frame(
    settings: HostSettings, file: Path, acquire_first: bool, size: tuple[int, int] | None, encoding: str
) -> None:
    """Save the sensor's latest frame in FILE: a picture, or a .npy array of one, by its name; else raw bytes.

    A picture is a preview in the sensor's size and colors, before the device makes an input tensor of it.
    """
    from aisrv.protocol.sensor_format import SensorFormat
    from host_tools.tensors.files import write_file
    from host_tools.tensors.images import SUFFIXES

    is_picture = file.suffix.lower() in (*SUFFIXES, ".npy")
    form = SensorFormat(*size, PICTURES.index(encoding)) if size else None
    with settings.connect() as server:
        if acquire_first:
            server.acquire_single()
        if is_picture and form is None:
            form = server.sensor_format()
        data = server.read_sensor()
    if is_picture and form is None:
        raise TensorError("the device does not say what its frames are: give --size and --encoding")
    write_file(file, _encoded(file, data, form) if is_picture and form else data)
    answer: dict[str, object] = {"file": str(file), "bytes": len(data)}
    text = f"{file}: {len(data)} bytes"
    if is_picture and form is not None:
        answer |= {"width": form.width, "height": form.height}
        text = f"{file}: {form.width} x {form.height}"
    settings.answer(answer, lambda: click.echo(text))


def _encoded(file: Path, data: bytes, form: "SensorFormat") -> bytes:
    """Return the bytes of a picture's file, of the kind that its name's ending says."""
    import io

    from host_tools.tensors.frames import picture_of
    from host_tools.tensors.npy import npy_file

    picture = picture_of(data, form)
    if file.suffix.lower() == ".npy":
        return npy_file(picture)
    try:
        from PIL import Image
    except ImportError as error:
        raise TensorError(import_failure("writing pictures needs Pillow", error, "images")) from error
    kind, content = Image.registered_extensions()[file.suffix.lower()], io.BytesIO()
    Image.fromarray(picture).save(content, kind)
    return content.getvalue()


@click.command(
    short_help="Write a register of the sensor.",
    epilog=examples("aisrv-host i2c 0x3C 0xB0 0x80", "aisrv-host i2c 16 2 32"),
)
@click.argument("address", type=Byte())
@click.argument("register", type=Byte())
@click.argument("value", type=Byte())
@pass_settings
def i2c(settings: HostSettings, address: int, register: int, value: int) -> None:
    """Write VALUE to REGISTER of the sensor at I2C ADDRESS (seven bits); write each as 60 or 0x3C."""
    with settings.connect() as server:
        server.set_sensor_register(address, register, value)
    settings.answer(
        {"address": address, "register": register, "value": value},
        lambda: click.echo(f"I2C {address:#04x}: register {register:#04x} = {value:#04x}"),
    )
