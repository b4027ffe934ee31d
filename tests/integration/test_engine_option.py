"""`--engine KIND` in real processes."""

import sys

from aisrv import digits
from host_tools.client import AiServer
from tests.support.programs import refusal, run_process, running


def test_device_without_an_interpreter_gives_back_what_it_got() -> None:
    with running("--engine", "none") as (_, address), AiServer.open(address) as server:
        assert server.run(bytes(range(256)) * 4) == bytes(range(256)) * 4


def test_unknown_kind_is_a_usage_error() -> None:
    code, output, errors = refusal("run", "--port", "0", "--engine", "magic")
    assert (code, output) == (2, "")
    assert "no kind 'magic', there are tflite, litert, tflm, xcore, kernels, relocatable, none" in errors


def test_info_shows_where_the_model_lies() -> None:
    with running() as (_, address):
        with AiServer.open(address) as server:
            server.load_model(digits.model_bytes())
        done = run_process(
            [sys.executable, "-P", "-m", "host_tools", "--device", address, "info"], check=True
        )
    assert f"model {len(digits.model_bytes()) + 3 & -4:,} bytes" in " ".join(done.stdout.split())
