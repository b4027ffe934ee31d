"""client.py WEBSOCKET: reads and sets registers of the device by PyPI's jacdac-python; prints JSON."""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from jacdac.bus import Bus
from jacdac.model_runner import ModelRunnerClient
from jacdac.sensor_aggregator import SensorAggregatorClient
from jacdac.transports.ws import WebSocketTransport


def wait_for(what: str, found: Callable[[], Any], seconds: float = 20) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        value = found()
        if value is not None:
            return value
        time.sleep(0.02)
    raise SystemExit(f"no {what} within {seconds} s")


bus = Bus(
    transports=[WebSocketTransport(sys.argv[1])],
    disable_logger=True,
    disable_role_manager=True,
    disable_settings=True,
    disable_brain=True,
    disable_dev_tools=True,
    spi=False,
)
runner = ModelRunnerClient(bus, "")
aggregator = SensorAggregatorClient(bus, "")
wait_for("Model Runner", lambda: runner.connected or None)
wait_for("Sensor Aggregator", lambda: aggregator.connected or None)
answer = {
    "format": wait_for("format", lambda: runner.format),
    "format_version": wait_for("format_version", lambda: runner.format_version),
    "model_size": wait_for("model_size", lambda: runner.model_size),
    "last_error": wait_for("last_error", lambda: runner.last_error),
    "num_samples": wait_for("num_samples", lambda: aggregator.num_samples),
}
runner.auto_invoke_every = 9


def nine() -> int | None:
    runner.register(0x80).refresh()
    return runner.auto_invoke_every if runner.auto_invoke_every == 9 else None


answer["auto_invoke_every"] = wait_for("the value that was set", nine)
print("answer " + json.dumps(answer), flush=True)
