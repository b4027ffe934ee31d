"""Pages that show what is not so are told from pages that do."""

import shutil
from pathlib import Path

import pytest

from tests.support.manual_page import Command, Page, PageError, commands_of, compare, updated
from tests.support.page_session import follow


def page_of(text: str) -> Page:
    return Page(Path("page.md"), text)


def console(*lines: str) -> str:
    return "\n".join(["Text.", "", "```console", *lines, "```", ""])


async def check(text: str, folder: Path) -> None:
    await follow(page_of(text), folder, compare)


async def test_commands_of_a_page_share_a_shell_and_a_folder(tmp_path: Path) -> None:
    text = console("$ word=seven", "$ mkdir in; cd in") + console(
        "$ echo $word; basename $PWD", "seven", "in"
    )
    await check(text, tmp_path)


async def test_another_output_than_shown_is_told_with_page_and_line(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="line 5: `echo two` does not print what is shown") as caught:
        await check(console("$ true", "$ echo two", "three"), tmp_path)
    assert "-three" in str(caught.value)
    assert "+two" in str(caught.value)


async def test_output_that_is_not_shown_is_told(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="line 4"):
        await check(console("$ echo two"), tmp_path)


async def test_dots_stand_for_anything(tmp_path: Path) -> None:
    await check(console("$ seq 9", "1", "...", "9"), tmp_path)


async def test_times_and_rates_of_this_machine_are_not_compared(tmp_path: Path) -> None:
    await check(console("$ echo done in 17.3 ms at 5.1 MB/s", "done in 2.0 ms at 12 MB/s"), tmp_path)


async def test_log_lines_may_come_anywhere_at_any_time(tmp_path: Path) -> None:
    log = "2026-01-02 03:04:05,678 phy.usb: "
    await check(console(f"$ echo '{log}a'; echo b", "b", f"{log}a".replace("678", "999")), tmp_path)
    with pytest.raises(PageError, match="does not print"):
        await check(console(f"$ echo '{log}a'; echo b", "b", f"{log}c"), tmp_path)


async def test_a_failure_is_told_unless_the_page_shows_the_exit_code(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="exit code 3"):
        await check(console("$ (exit 3)"), tmp_path)


async def test_an_exit_code_is_shown_by_the_next_command(tmp_path: Path) -> None:
    await check(console("$ (exit 3)", "$ echo $?", "3"), tmp_path)


async def test_a_block_with_a_title_is_a_file(tmp_path: Path) -> None:
    await check('```python title="in/a.py"\nprint(7)\n```\n' + console("$ python in/a.py", "7"), tmp_path)


async def test_a_background_command_has_started_when_it_prints_what_is_shown(tmp_path: Path) -> None:
    line = "$ sh -c 'touch on; echo on; exec sleep 60' &"
    await check(console(line, "on", "$ ls", "on", "$ kill $!"), tmp_path)


async def test_lines_of_a_background_command_may_come_in_any_order(tmp_path: Path) -> None:
    line = "$ sh -c 'echo a; echo b1; exec sleep 60' &"
    await check(console(line, "b...", "a", "$ kill $!"), tmp_path)


async def test_a_background_command_that_goes_on_is_told(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="still run at the end of the page"):
        await check(console("$ sleep 60 &"), tmp_path)


async def test_commands_may_have_several_lines(tmp_path: Path) -> None:
    await check(console("$ echo a \\", "> b", "a b"), tmp_path)


async def test_output_before_a_command_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(PageError, match="line 4: a block `console` begins with a command"):
        await check(console("a", "$ echo a"), tmp_path)


def test_a_block_in_a_list_has_its_commands() -> None:
    (block,) = page_of("1. One\n\n    ```console\n    $ echo a\n    a\n    ```\n").blocks()
    assert list(commands_of(block)) == [Command(4, "echo a", "a", 6)]


async def test_a_page_is_updated_to_what_is_printed(tmp_path: Path) -> None:
    page = page_of(console("$ echo two", "three", "$ seq 2", "1", "...", "$ echo a", "$ true", "b"))
    seen: list[tuple[Command, str]] = []
    await follow(page, tmp_path, lambda *each: seen.append(each))
    assert updated(page, seen) == console(
        "$ echo two", "two", "$ seq 2", "1", "...", "$ echo a", "a", "$ true"
    )


def test_what_a_page_needs_is_looked_for() -> None:
    page = page_of("<!-- needs: bash, python:pytest, examples, file:/no/such -->\n")
    assert page.needs() == ["bash", "python:pytest", "examples", "file:/no/such"]
    assert page.missing() == "file:/no/such"
    assert page_of("<!-- needs: bash, python:no_such_module -->\n").missing() == "python:no_such_module"
    assert shutil.which("bash")
    assert page_of("nothing").missing() is None


@pytest.mark.parametrize("before", ["", "a", "ab"])
async def test_long_output_is_received_whole(tmp_path: Path, before: str) -> None:
    command = f"$ python -c \"print('{before}' + '─' * 50000)\""
    await check(console(command, before + "─" * 50000), tmp_path)


async def test_ports_of_devices_are_those_of_the_page(tmp_path: Path) -> None:
    text = '```python title="a.py"\nprint("usbip:127.0.0.1:3240" == "usbip:127.0.0.1:" + "32" + "40")\n```\n'
    second = console(
        "$ python a.py", "False", "$ echo 127.0.0.1:3240 127.0.0.1:3241", "127.0.0.1:3240 127.0.0.1:3241"
    )
    await check(text + second, tmp_path)
