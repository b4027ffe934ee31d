"""The tables of the services that a device can have.

Sources: the Model Runner's and the Sensor Aggregator's specifications of Jacdac, its specifications of the
control service and of Protocol Test.
"""

from typing import Final

from aisrv.addons.jacdac.wire.packing import Packing
from aisrv.addons.jacdac.wire.service_spec import (
    BASE_REGISTERS,
    STATUS_CODE_CHANGED,
    Action,
    Event,
    Register,
    ServiceSpec,
    const,
    ro,
    rw,
)

CONTROL: Final = ServiceSpec(
    "Control",
    0x00000000,
    "The device itself; always service 0. It announces the device every 500 ms.",
    (
        rw(0x080, "reset_in", "u32", "Microseconds until the device resets itself; 0: never.", optional=True),
        const(0x180, "device_description", "s", "What the device is.", optional=True),
        const(0x181, "product_identifier", "u32", "The product.", optional=True),
        const(0x184, "bootloader_product_identifier", "u32", "Its boot loader's.", optional=True),
        const(0x185, "firmware_version", "s", "The version of aisrv.", optional=True),
        ro(0x186, "uptime", "u64", "Microseconds since the device started.", optional=True),
        *BASE_REGISTERS,
    ),
    (
        Action(0x00, "services", Packing(""), Packing("u16 u8 u8 r: u32"), "Announces the device at once."),
        Action(0x80, "noop", Packing(""), None, "Does nothing."),
        Action(0x81, "identify", Packing(""), None, "Logs that somebody looks for the device."),
        Action(0x82, "reset", Packing(""), None, "Resets pipes and counters, loads the models from flash."),
        Action(
            0x83, "flood_ping", Packing("u32 u32 u8"), Packing("u32 b"),
            "Sends so many reports, counted from the second number, with so many bytes each.",
        ),
        Action(0x84, "set_status_light", Packing("u8 u8 u8 u8"), None, "Is ignored: there is no light."),
    ),
    (STATUS_CODE_CHANGED,),
)  # fmt: skip

MODEL_RUNNER: Final = ServiceSpec(
    "Model Runner",
    0x140F9A78,
    "An AI engine.",
    (
        rw(0x080, "auto_invoke_every", "u16", "N > 0: runs after each N new samples. Not kept in flash."),
        ro(0x101, "outputs", "r: f32", "The last results, 58 at most; empty before the first run."),
        ro(0x180, "input_shape", "r: u16", "Dimensions of the input; empty without a model."),
        ro(0x181, "output_shape", "r: u16", "Dimensions of the output; empty without a model."),
        ro(0x182, "last_run_time", "u32", "Microseconds of the engine's timings, not of the host's clock."),
        ro(0x183, "allocated_arena_size", "u32", "Bytes of the tensor arena that the model uses."),
        ro(0x184, "model_size", "u32", "Bytes; 0 without a model."),
        ro(0x185, "last_error", "s", "Why loading or running failed; empty when all is well."),
        const(0x186, "format", "u32", "0x334C4654: a TensorFlow Lite file, by its bytes 4 to 7."),
        const(0x187, "format_version", "u32", "3, the version of TensorFlow Lite's schema."),
        const(0x188, "parallel", "u8", "1 if the engine has a tile to itself.", optional=True),
        *BASE_REGISTERS,
    ),
    (
        Action(
            0x80, "set_model", Packing("u32"), Packing("u16"),
            "Opens a pipe for a model of so many bytes; answers its port, 0 where it is refused.",
        ),
        Action(
            0x81, "predict", Packing("b[12]"), Packing("u16"),
            "Opens a pipe for inputs, with the pipe for outputs; answers its port, 0 where it is refused.",
        ),
    ),
    (STATUS_CODE_CHANGED,),
)  # fmt: skip

SENSOR_AGGREGATOR: Final = ServiceSpec(
    "Sensor Aggregator",
    0x1D90E1C5,
    "Collects samples of the sensors on the bus and feeds them to the Model Runners of the device.",
    (
        rw(
            0x080, "inputs", "u16 u16 u32 r: b[8] u32 u8 u8 u8 i8",
            "Milliseconds between samples, samples in the window, 0; for each input device, class, index, "
            "size, type, shift.",
        ),
        ro(0x180, "num_samples", "u32", "Samples since the inputs were set."),
        ro(0x181, "sample_size", "u8", "Bytes of a sample as float32."),
        rw(0x081, "streaming_samples", "u32", "Reports the next N samples, and counts down."),
        ro(0x101, "current_sample", "b", "The last sample, as float32."),
        *BASE_REGISTERS,
    ),
    (),
    (STATUS_CODE_CHANGED,),
)  # fmt: skip

_TESTED: Final = (
    (0x1, "bool", "u8"),
    (0x2, "u32", "u32"),
    (0x3, "i32", "i32"),
    (0x4, "string", "s"),
    (0x5, "bytes", "b"),
    (0x6, "i8_u8_u16_i32", "i8 u8 u16 i32"),
    (0x7, "u8_string", "u8 s"),
)


def _mirrored(number: int, name: str, packing: str) -> tuple[Register, Register]:
    return (
        rw(0x080 + number, f"rw_{name}", packing, "Is set and read."),
        ro(0x180 + number, f"ro_{name}", packing, f"Mirrors rw_{name}."),
    )


PROTOCOL_TEST: Final = ServiceSpec(
    "Protocol Test",
    0x16C7466A,
    "Exercises registers, events, commands and pipes, for tests of clients and devices.",
    (*(one for tested in _TESTED for one in _mirrored(*tested)), *BASE_REGISTERS),
    (
        *(
            Action(0x80 + number, f"c_{name}", Packing(packing), None, f"Sets rw_{name}.")
            for number, name, packing in _TESTED
        ),
        Action(0x90, "c_report_pipe", Packing("b[12]"), None, "Sends rw_bytes into a pipe, byte by byte."),
    ),
    (
        *(
            Event(0x80 + number, f"e_{name}", Packing(packing), f"rw_{name} has changed to this.")
            for number, name, packing in _TESTED
        ),
        STATUS_CODE_CHANGED,
    ),
)

SERVICES: Final = (CONTROL, MODEL_RUNNER, SENSOR_AGGREGATOR, PROTOCOL_TEST)
"""All of them."""

SPECS_BY_CLASS: Final = {spec.service_class: spec for spec in SERVICES}
