"""Pages of programs: each command with its usage, text and options."""

from dataclasses import dataclass

import click

from aisrv.terminal.command_group import examples
from aisrv.terminal.option_group import GroupedCommand, option, option_group
from docs.generate.command_lines import program


@dataclass(frozen=True, slots=True)
class Speed:
    clock: int = option(
        "--clock", type=click.IntRange(1, 800), default=600, show_default=True, help="In MHz."
    )


@click.group("tool", epilog=examples("tool go 3"))
def tool() -> None:
    """Do something."""


@tool.command("go", cls=GroupedCommand)
@click.argument("count")
@option_group("speed", Speed, "Speed options")
@click.option("--to", required=True, metavar="A|B", help="Where to.")
@click.option("--rate", type=click.FloatRange(min=0, min_open=True), help="How fast. [default: the board's]")
@click.option(
    "--device", envvar="TOOL_DEVICE", show_envvar=True, default="usb", show_default=True, help="Which."
)
def go(count: str, speed: Speed, **_options: object) -> None:
    """Go COUNT times.

    \b
    Examples:
      tool go 1
    """


def test_the_page_of_a_program() -> None:
    assert (
        program(tool, "tool")
        == """\
## `tool`

```
tool [OPTIONS] COMMAND [ARGS]...
```

Do something.

| command | does |
| --- | --- |
| [`tool go`](#tool-go) | Go COUNT times. |

Examples:

```
tool go 3
```

## `tool go`

```
tool go [OPTIONS] COUNT
```

Go COUNT times.

Examples:

```
tool go 1
```

| Speed options | meaning | default |
| --- | --- | --- |
| `--clock N` | In MHz. 1 to 800. | 600 |

| Options | meaning | default |
| --- | --- | --- |
| <code>--to A&#124;B</code> | Where to. | must be given |
| `--rate X` | How fast. Above 0. | the board's |
| `--device TEXT` | Which. The variable `TOOL_DEVICE` gives it, too. | usb |"""
    )
