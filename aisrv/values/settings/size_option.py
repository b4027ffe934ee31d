"""Sizes as options of a command."""

from typing import Final

import click

from aisrv.values.settings.size import Size


class SizeType(click.ParamType[int]):
    """Bytes: 4096, 0x1000, 4K, 4M."""

    name = "size"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        try:
            return Size.parse(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


SIZE: Final = SizeType()
