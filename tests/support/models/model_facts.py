"""What a device knows of a model, learned from a device that does nothing else."""

from aisrv.device.device import open_device
from aisrv.inference.process.inline import inline
from aisrv.model.reader import read_model
from aisrv.protocol.commands import Command
from aisrv.protocol.engine_channel import get_command, set_command
from tests.support.oracles.expected_engine import ModelFacts, steady_lines

_known: dict[tuple[int, bytes], ModelFacts] = {}


async def facts_of(command: int, model: bytes) -> ModelFacts:
    """Load a model with a command, and run it once where it loads; the same answer at every call."""
    if (command, model) not in _known:
        _known[command, model] = await _learn(command, model)
    return _known[command, model]


async def _learn(command: int, model: bytes) -> ModelFacts:
    async with open_device(runner=inline) as device:
        engine = device.local[0]
        if await set_command(engine, command, 0, model):
            text = bytes(device.engines[0].log).rstrip(b"\0").decode()
            return ModelFacts(refusal=text.partition(": ")[2].rstrip("\n"))
        note = bytes(device.engines[0].log).rstrip(b"\0").decode().rstrip("\n")
        read = read_model(model)
        _, memory = await get_command(engine, Command.GET_MEMORY)
        _, tensors = await get_command(engine, Command.GET_TENSORS)
        _, bands = await get_command(engine, Command.GET_TIMING_BANDS)
        await set_command(engine, Command.START_INFER)
        _, timings = await get_command(engine, Command.GET_TIMINGS)
        _, profile = await get_command(engine, Command.GET_PROFILE)
        return ModelFacts(
            tuple(tensor.nbytes for tensor in read.input_tensors),
            tuple(tensor.nbytes for tensor in read.output_tensors),
            len(read.operators),
            b"".join(operator.name.encode() + b"\0" for operator in read.operators),
            bands,
            memory=memory,
            tensors=tensors,
            timings=timings,
            profile=steady_lines(profile),
            note=note,
        )
