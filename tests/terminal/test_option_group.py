"""Groups of options as one argument of a command."""

import ast
import enum
from dataclasses import dataclass

import click
import pytest
from click.testing import CliRunner

from aisrv.terminal.option_group import GroupedCommand, enum_option, option, option_group
from tests.support.paths import ROOT, product_sources


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclass(frozen=True, slots=True)
class Paint:
    """What the group collects."""

    size: int = option("--size", type=int, default=3, show_default=True, help="How much.")
    names: tuple[str, ...] = option("--name", default=(), multiple=True)
    color: Color = enum_option("--color", default=Color.RED, help="Which.")
    note: str | None = option("--note", "-n")
    wet: bool | None = option("--wet/--dry")
    layers: int = 2


@click.command()
@click.option("--before", is_flag=True)
@option_group("paint", Paint)
@click.argument("wall")
def command(paint: Paint, wall: str, before: bool) -> None:
    """Show the arguments."""
    click.echo(repr((paint, wall, before)))


def said(*arguments: str) -> str:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.output
    return result.output


def test_nothing_given_is_the_value_with_its_defaults() -> None:
    assert said("north") == repr((Paint(), "north", False)) + "\n"
    assert Paint().color is Color.RED


def test_the_values_of_the_options_are_in_the_value() -> None:
    expected = Paint(7, ("a", "b"), Color.BLUE, "thin", False)
    arguments = ["--size", "7", "--name", "a", "--name", "b", "--color", "blue", "-n", "thin", "--dry"]
    assert said("--before", *arguments, "south") == repr((expected, "south", True)) + "\n"


def test_the_help_lists_the_options_in_the_order_of_the_fields() -> None:
    lines = said("--help").splitlines()
    flags = [line.split()[0].rstrip(",") for line in lines if line.startswith("  -")]
    assert flags == ["--before", "--size", "--name", "--color", "-n", "--wet", "--help"]
    assert "[default: 3]" in "".join(lines)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--color", "green"], "'green' is not one of 'red', 'blue'."),
        (["--size", "many"], "'many' is not a valid integer."),
        (["--layers", "1"], "No such option"),
    ],
)
def test_wrong_values_are_usage_errors(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(command, [*arguments, "north"])
    assert result.exit_code == 2
    assert message in result.output


def test_a_group_serves_several_commands() -> None:
    @click.command()
    @option_group("first", Paint)
    def other(first: Paint) -> None:
        click.echo(str(first.size))

    assert CliRunner().invoke(other, ["--size", "4"]).output == "4\n"
    assert said("--size", "5", "north").startswith("(Paint(size=5,")


def test_the_help_lists_no_arguments_among_the_options() -> None:
    @click.command(cls=GroupedCommand)
    @click.argument("models", nargs=-1)
    @click.option("--json", is_flag=True, help="Print JSON.")
    def show(**_values: object) -> None:
        """Show MODELS."""

    lines = CliRunner().invoke(show, ["--help"]).output.splitlines()
    assert [line.split()[0] for line in lines[lines.index("Options:") + 1 :]] == ["--json", "--help"]


def parameters_of_commands(source: str) -> dict[str, int]:
    """The number of parameters of each function that a decorator makes a command."""
    return {
        node.name: len(node.args.args) + len(node.args.kwonlyargs)
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.FunctionDef)
        and any(
            isinstance(each, ast.Call) and ast.unparse(each.func).endswith((".command", ".group"))
            for each in node.decorator_list
        )
    }


def test_no_command_takes_more_than_eight_parameters() -> None:
    counts = {
        f"{path.relative_to(ROOT)} {name}": count
        for path, source in product_sources(r"\.(command|group)\(").items()
        for name, count in parameters_of_commands(source).items()
    }
    assert len(counts) > 50  # the commands were found
    assert {name: count for name, count in counts.items() if count > 8} == {}
