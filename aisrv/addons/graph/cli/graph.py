"""`aisrv graph`: compile, check, list, decompile, draw and run graphs of stream-processing nodes."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from aisrv.addons.graph.cli.graph_run import run_graph
from aisrv.terminal.file_types import FILE, NEW_FILE, write_files

if TYPE_CHECKING:
    from aisrv.addons.graph.binary.model import Graph
    from aisrv.addons.graph.compiler.compile import Compiled
    from aisrv.addons.graph.errors import Message
    from aisrv.addons.graph.platform.manifests import Platform

_PLATFORM = click.option(
    "--platform",
    type=FILE,
    metavar="FILE",
    help="Top manifest of the platform: its memory banks, IOs and nodes. [default: the one that is shipped]",
)
_COMPAT = click.option(
    "--compat", is_flag=True, help="Write the same words as the public compiler, to the bit."
)
_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def graph() -> None:
    """Graphs of stream-processing nodes: texts, and the words that a device runs.

    \b
    Examples:
      aisrv graph check microphone.txt
      aisrv graph compile microphone.txt --platform top_manifest.txt -o graph_bin.txt
      aisrv graph list graph_bin.txt
      aisrv graph decompile graph_bin.txt --platform top_manifest.txt
      aisrv graph draw microphone.txt --platform top_manifest.txt --svg graph.svg
      aisrv graph run microphone.txt --io 4=wav:speech.wav --io 8=gpio:word
    """


graph.add_command(run_graph)


@graph.command()
@click.argument("text", type=FILE)
@_PLATFORM
@click.option("-o", "--output", type=NEW_FILE, help="Write the words to this file instead of the terminal.")
@_COMPAT
@_JSON
def compile(  # noqa: A001 - the subcommand's name
    text: Path, platform: Path | None, output: Path | None, compat: bool, as_json: bool
) -> None:
    """Compile TEXT to words, `0x…,` a line, with a listing in comments and the memory by bank at the end.

    \b
    Examples:
      aisrv graph compile microphone.txt --platform top_manifest.txt
      aisrv graph compile microphone.txt --platform top_manifest.txt -o graph_bin.txt
      aisrv graph compile microphone.txt --platform top_manifest.txt --json
    """
    from aisrv.addons.graph.compiler.listing import memory_text, words_text

    compiled = _compiled(text, platform, compat, as_json)
    if as_json:
        written = json.dumps(_values(compiled), indent=2) + "\n"
    else:
        written = words_text(compiled.graph, compiled.platform.node_names) + memory_text(compiled.memory)
    if output is None:
        click.echo(written, nl=False)
    else:
        write_files({output: written})


@graph.command()
@click.argument("text", type=FILE)
@_PLATFORM
@_JSON
def check(text: Path, platform: Path | None, as_json: bool) -> None:
    """Compile TEXT for its errors and warnings, and the memory it takes.

    \b
    Examples:
      aisrv graph check microphone.txt --platform top_manifest.txt
      aisrv graph check microphone.txt --platform top_manifest.txt --json
    """
    compiled = _compiled(text, platform, False, as_json)
    if as_json:
        values = _values(compiled)
        del values["words"]
        click.echo(json.dumps({"errors": [], **values}, indent=2))
        return
    words, nodes = len(compiled.words), len(compiled.graph.nodes)
    click.echo(f"{text}: {nodes} nodes, {len(compiled.graph.arcs)} arcs, {words} words")
    for use in compiled.memory:
        if use.used:
            click.echo(
                f"VID {use.bank.vid}: {use.static} static and {use.working} working of {use.bank.size} bytes"
            )


@graph.command("list")
@click.argument("words", type=FILE)
@_PLATFORM
def list_(words: Path, platform: Path | None) -> None:
    """List the words of a compiled graph, and what each one is.

    \b
    Examples:
      aisrv graph list graph_bin.txt
      aisrv graph list graph_bin.txt --platform top_manifest.txt
    """
    from aisrv.addons.graph.compiler.listing import words_text

    click.echo(words_text(_graph(words), _platform(platform).node_names), nl=False)


@graph.command()
@click.argument("words", type=FILE)
@_PLATFORM
@_COMPAT
def decompile(words: Path, platform: Path | None, compat: bool) -> None:
    """Print a text that compiles to WORDS; with `--compat`, when it is compiled with `--compat`.

    \b
    Examples:
      aisrv graph decompile graph_bin.txt --platform top_manifest.txt
    """
    from aisrv.addons.graph.compiler.decompile import DecompileError
    from aisrv.addons.graph.compiler.decompile import decompile as text_of
    from aisrv.addons.graph.compiler.dialect import OURS
    from aisrv.addons.graph.compiler.public import PUBLIC

    try:
        click.echo(text_of(_graph(words), _platform(platform), PUBLIC if compat else OURS), nl=False)
    except DecompileError as error:
        raise click.ClickException(f"{words}: {error}") from None


@graph.command()
@click.argument("text", type=FILE)
@_PLATFORM
@click.option("--svg", type=NEW_FILE, help="Write the drawing to this file instead of the terminal.")
def draw(text: Path, platform: Path | None, svg: Path | None) -> None:
    """Draw TEXT as SVG: nodes, arcs with their formats, and the memory by bank.

    \b
    Examples:
      aisrv graph draw microphone.txt --platform top_manifest.txt --svg graph.svg
    """
    from aisrv.addons.graph.compiler.drawing import draw as drawn

    picture = drawn(_compiled(text, platform, False, False))
    if svg is None:
        click.echo(picture, nl=False)
    else:
        write_files({svg: picture})


def _compiled(text: Path, platform: Path | None, compat: bool, as_json: bool) -> "Compiled":
    """Compile a file; its errors end the command, warnings go to stderr."""
    from aisrv.addons.graph.compiler.compile import compile_file
    from aisrv.addons.graph.compiler.dialect import OURS
    from aisrv.addons.graph.compiler.public import PUBLIC
    from aisrv.addons.graph.errors import TextError
    from aisrv.addons.graph.platform.manifests import SHIPPED_PLATFORM

    try:
        compiled = compile_file(text, platform or SHIPPED_PLATFORM, PUBLIC if compat else OURS)
    except TextError as error:
        _fail(error.messages, as_json)
    if not as_json:
        for message in compiled.warnings:
            click.echo(message, err=True)
    return compiled


def _fail(messages: "tuple[Message, ...]", as_json: bool) -> NoReturn:
    if as_json:
        click.echo(json.dumps({"errors": [_message(each) for each in messages]}, indent=2))
    else:
        for message in messages:
            click.echo(message, err=True)
    raise SystemExit(1)


def _graph(path: Path) -> "Graph":
    from aisrv.addons.graph.binary.words import parse_words, read_words
    from aisrv.addons.graph.errors import WordsError
    from aisrv.addons.graph.text.source import FileError, read_text

    try:
        return read_words(parse_words(read_text(path)))
    except (WordsError, FileError) as error:
        raise click.ClickException(f"{path}: {error}") from None


def _platform(path: Path | None) -> "Platform":
    from aisrv.addons.graph.errors import TextError
    from aisrv.addons.graph.platform.manifests import SHIPPED_PLATFORM, load_platform

    try:
        return load_platform(path or SHIPPED_PLATFORM)
    except TextError as error:
        _fail(error.messages, False)


def _message(message: "Message") -> dict[str, Any]:
    return {"file": message.place.file, "line": message.place.line, "text": message.text}


def _values(compiled: "Compiled") -> dict[str, Any]:
    """Return a compiled graph for JSON: words, memory in bytes by bank, nodes, arcs and warnings."""
    return {
        "words": compiled.words,
        "memory": [
            {
                "vid": use.bank.vid,
                "size": use.bank.size,
                "static": use.static,
                "working": use.working,
                "free": use.free,
            }
            for use in compiled.memory
        ],
        "nodes": [node.name for node in compiled.network.nodes],
        "arcs": [{"producer": arc.producer, "consumer": arc.consumer} for arc in compiled.network.arcs],
        "warnings": [_message(each) for each in compiled.warnings],
    }
