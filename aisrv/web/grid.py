"""What the page shows of many devices: a few words for each."""

from collections.abc import Mapping

from aisrv.monitor.cell_texts import errors as name_errors
from aisrv.web.device_view import DeviceView, Json, cut


def grid_state(views: Mapping[str, DeviceView], now: float) -> Json:
    """Return `t` and for each device its serial number, inferences, LEDs as bits, halted cores, errors."""
    return {"t": round(now, 3), "devices": {name: _device(view) for name, view in views.items()}}


def _device(view: DeviceView) -> Json:
    device = view.device
    halted = sum(core.trap is not None for tile in device.node.tiles for core in tile.cores)
    levels = [level for engine in device.engines for level in engine.gpio.levels]
    errors = next((name_errors(engine.errors) for engine in device.engines if engine.errors), "")
    return {
        "serial": cut(device.board.serial or ""),
        "n": sum(engine.inferences for engine in device.engines),
        "leds": sum(level << place for place, level in enumerate(levels)),
        "halted": halted,
        "errors": errors,
    }
