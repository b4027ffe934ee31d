"""A device on a Jacdac bus, by `HOST:PORT[/DEVICE]`: its Model Runners in place of endpoints."""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from host_tools.errors import BadAddressError, DeviceNotFound
from host_tools.transports.transport import DeviceInfo

if TYPE_CHECKING:
    from aisrv.addons.jacdac.host.bus_client import BusClient
    from aisrv.addons.jacdac.host.exchange import JacdacExchange
    from aisrv.addons.jacdac.host.model_runner import ModelRunnerClient
    from aisrv.addons.jacdac.wire.packing import Value

DEFAULT_ADDRESS: Final = "127.0.0.1:8082"

OF_A_DEVICE: Final = ("device_description", "firmware_version")
OF_A_MODEL_RUNNER: Final = (
    "model_size",
    "input_shape",
    "output_shape",
    "allocated_arena_size",
    "last_run_time",
    "auto_invoke_every",
    "last_error",
)
"""The registers that `info` shows of a device on a Jacdac bus."""

_DEVICE: Final = re.compile(r"[0-9a-fA-F]{16}\Z")


class JacdacTransport:
    """A device on a bus that has Model Runners."""

    def __init__(self, bus: "BusClient", device: int) -> None:
        """Use a device of a bus, which the transport leaves at its end."""
        self.bus: Final = bus
        self.device: Final = device

    @property
    def engines(self) -> Sequence[int]:
        """The indexes of its Model Runners, one for each engine."""
        from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER

        return self.bus.indexes(self.device, MODEL_RUNNER.service_class)

    def runner(self, engine: int) -> "ModelRunnerClient":
        """Return the Model Runner of an engine; DeviceNotFound where the device has fewer."""
        from aisrv.addons.jacdac.host.model_runner import ModelRunnerClient

        indexes = self.engines
        if engine >= len(indexes):
            raise DeviceNotFound(
                f"no engine {engine}: device {self.device:016x} has {len(indexes)} Model Runners"
            )
        return ModelRunnerClient(self.bus, self.device, indexes[engine])

    def wire(self, engine: int, timeout: float | None) -> "JacdacExchange":
        """Return the way of commands to the Model Runner of an engine."""
        from aisrv.addons.jacdac.host.exchange import JacdacExchange

        return JacdacExchange(self.runner(engine), timeout)

    def describe(self, name: str) -> "Value":
        """Return the value of a register of the control service."""
        from aisrv.addons.jacdac.wire.service_tables import CONTROL

        return self.bus.get(self.device, 0, CONTROL.register(name))

    def close(self) -> None:
        """Leave the bus."""
        self.bus.close()


def open_jacdac(spec: str) -> JacdacTransport:
    """Open the device at `HOST:PORT/DEVICE`, or the only one with Model Runners; DeviceNotFound."""
    from aisrv.addons.jacdac.host.bus_client import BusClient
    from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER

    address, device = _parse(spec)
    bus = BusClient.open(address)
    try:
        found = bus.find(MODEL_RUNNER.service_class, device)
        if not found:
            which = "device with a Model Runner" if device is None else f"Model Runner on {device:016x}"
            raise DeviceNotFound(f"no {which} announces itself on the Jacdac bus at {address}")
        if len(found) > 1:
            names = ", ".join(f"jacdac:{address}/{one:016x}" for one in found)
            raise BadAddressError(f"the Jacdac bus at {address} has several devices: {names}; name one")
        return JacdacTransport(bus, found[0])
    except BaseException:
        bus.close()
        raise


def list_jacdac(spec: str) -> list[DeviceInfo]:
    """List the devices with Model Runners on the bus at `HOST:PORT`."""
    from aisrv.addons.jacdac.host.bus_client import BusClient
    from aisrv.addons.jacdac.wire.service_tables import MODEL_RUNNER

    address, device = _parse(spec)
    with BusClient.open(address) as bus:
        found = [JacdacTransport(bus, one) for one in bus.find(MODEL_RUNNER.service_class, device)]
        return [
            DeviceInfo(
                f"jacdac:{address}/{one.device:016x}",
                product=str(one.describe("device_description")),
                serial=f"{one.device:016x}",
                note=f"Model Runners: {len(one.engines)}",
            )
            for one in found
        ]


def _parse(spec: str) -> tuple[str, int | None]:
    address, slash, device = spec.partition("/")
    if slash and not _DEVICE.match(device):
        raise BadAddressError(f"jacdac:{spec}: {device!r} is not a device id of 16 hexadecimal digits")
    return address or DEFAULT_ADDRESS, int(device, 16) if slash else None


def describe_jacdac(spec: str, engine: int) -> dict[str, object]:
    """Return what the control service and a Model Runner say of themselves."""
    transport = open_jacdac(spec)
    try:
        runner = transport.runner(engine)
        return {
            "device": f"{transport.device:016x}",
            "engine": engine,
            "engines": len(transport.engines),
            **{name: transport.describe(name) for name in OF_A_DEVICE},
            **{name: runner.read(name) for name in OF_A_MODEL_RUNNER},
        }
    finally:
        transport.close()
