"""Signals that were ignored as a command started stay so: nothing takes a handler for them."""

import ast
import signal
import subprocess
from collections.abc import Iterator

import pytest

from aisrv.values.heeded_signals import heeded
from tests.support.paths import ROOT, product_sources
from tests.support.programs import AISRV

HANDLERS = ("open_signal_receiver", "add_signal_handler", "signal")
OTHERS = {
    "aisrv/addons/firmware/c_run.py run_c",  # does nothing, so that Ctrl-C is the debugger's
    "aisrv/inference/process/worker.py main",  # ignores it
    "aisrv/terminal/command_group.py _end_at_once_by_ctrl_c",  # in place of Python's own handler
}


def handlers() -> Iterator[tuple[str, str]]:
    """Yield place and text of each function of the product that takes handlers of signals."""
    for path, source in product_sources(r"SIG(INT|TERM|HUP)").items():
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and any(
                isinstance(call, ast.Call)
                and isinstance(call.func, ast.Attribute)
                and call.func.attr in HANDLERS
                for call in ast.walk(node)
            ):
                yield f"{path.relative_to(ROOT).as_posix()} {node.name}", ast.unparse(node)


def test_each_handler_is_of_signals_that_were_not_ignored() -> None:
    found = dict(handlers())
    without = {place for place, text in found.items() if "heeded(" not in text and "_passed_on(" not in text}
    assert without == OTHERS
    assert len(found) > len(OTHERS) + 6


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_what_is_ignored_is_not_heeded(number: signal.Signals) -> None:
    before = signal.signal(number, signal.SIG_IGN)
    try:
        assert number not in heeded(signal.SIGINT, signal.SIGTERM)
    finally:
        signal.signal(number, before)
    assert heeded(number) == (number,)


@pytest.mark.parametrize(("handler", "code"), [(signal.SIG_IGN, 0), (signal.SIG_DFL, 130)])
def test_a_device_in_the_background_of_a_script_stays_at_ctrl_c(handler: signal.Handlers, code: int) -> None:
    with subprocess.Popen(
        [*AISRV, "run", "--port", "0", "--until-eof"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, handler),
    ) as running:
        assert running.stdin is not None
        assert running.stdout is not None
        assert running.stdout.readline().startswith(b"aisrv: ready at ")
        running.send_signal(signal.SIGINT)
        if code:
            assert running.wait() == code
        running.stdin.close()
        assert running.wait() == code
