"""A model file with what its value leaves out: bytes of constants, options of operators, first values.

Fields are those of `schema.fbs` by number. Every offset, length and index is checked; whatever the bytes are,
the answer is a ModelFile or a ModelFileError. No bytes of weights are copied.
"""

from typing import Final, NamedTuple

from aisrv.kernels.graph.errors import GraphError
from aisrv.model import BUILTIN_OPERATORS, Tensor
from aisrv.model.flatbuffer import I8, I32, ROOT, U8, U32, U64, File, Table
from aisrv.model.reader import read_model

_VAR_HANDLE_OPTIONS: Final = 111
"""Number of VarHandleOptions in the union BuiltinOptions."""


class Assignment(NamedTuple):
    """A constant that a variable starts with."""

    variable: str
    value: memoryview


class ModelFile:
    """One file: its main subgraph as a Model, and the rest by the indices that the Model has."""

    def __init__(self, data: bytes) -> None:
        """Read a file; ModelFileError."""
        self.model: Final = read_model(data)
        self._data = memoryview(data)
        root = Table(File(data), 0, ROOT)
        self._codes = [
            max(table.integer(0, I8), table.integer(3, I32)) for table in root.tables(1, "operator code")
        ]
        self._buffers = [self._buffer(table) for table in root.tables(4, "buffer")]
        self._subgraphs = list(root.tables(2, "subgraph"))
        main = self._subgraphs[0]
        self._tensors = list(main.tables(0, "tensor"))
        self._operators = list(main.tables(3, "operator"))

    def constant(self, tensor: Tensor) -> memoryview:
        """The bytes of a constant of the main subgraph, read-only; GraphError for a sparse one."""
        return self._constant(self._tensors[tensor.index], tensor.nbytes)

    def operator_number(self, index: int) -> int:
        """Number of an operator of the main subgraph in the schema's enum BuiltinOperator."""
        return self._codes[self._operators[index].integer(0, U32)]

    def options(self, index: int, kind: int) -> Table | None:
        """The options table of an operator, None where it has none of this number in BuiltinOptions."""
        operator = self._operators[index]
        return operator.table(4, "options") if operator.integer(3, U8) == kind else None

    def variable_name(self, index: int) -> str:
        """Container and name of the variable that an operator VAR_HANDLE of the main subgraph makes known."""
        return _variable_name(self._operators[index])

    def assignments(self, subgraph: int) -> tuple[Assignment, ...]:
        """What a subgraph assigns to variables; GraphError where it does anything else."""
        if not 0 < subgraph < len(self._subgraphs):
            raise GraphError(f"there is no subgraph {subgraph} to call: the file has {len(self._subgraphs)}")
        table = self._subgraphs[subgraph]
        tensors = list(table.tables(0, "tensor"))
        handles: dict[int, str] = {}
        found = []
        for operator in table.tables(3, "operator"):
            name = self._name(operator)
            inputs = operator.integers(1, I32, "inputs")
            outputs = operator.integers(2, I32, "outputs")
            if name == "VAR_HANDLE" and len(outputs) == 1:
                handles[outputs[0]] = _variable_name(operator)
            elif name == "ASSIGN_VARIABLE" and len(inputs) == 2 and inputs[0] in handles:
                if not 0 <= inputs[1] < len(tensors):
                    raise GraphError(f"{operator.where} names tensor {inputs[1]} of {len(tensors)}")
                found.append(Assignment(handles[inputs[0]], self._constant(tensors[inputs[1]])))
            else:
                raise GraphError(
                    f"{operator.where} is {name}: a subgraph that is called once may only assign constants"
                )
        return tuple(found)

    def _name(self, operator: Table) -> str:
        index = operator.integer(0, U32)
        if index >= len(self._codes):
            raise GraphError(f"{operator.where} names operator code {index} of {len(self._codes)}")
        return BUILTIN_OPERATORS[self._codes[index]]

    def _constant(self, tensor: Table, nbytes: int | None = None) -> memoryview:
        number = tensor.integer(2, U32)
        if number >= len(self._buffers):
            raise GraphError(f"{tensor.where} names buffer {number} of {len(self._buffers)}")
        data = self._buffers[number]
        if tensor.table(6, "sparsity") is not None:
            raise GraphError(f"{tensor.where} is sparse: only dense constants can be read")
        nbytes = len(data) if nbytes is None else nbytes
        if len(data) < nbytes or not data:
            raise GraphError(f"{tensor.where} is no constant of {nbytes} bytes, its buffer has {len(data)}")
        return data[:nbytes]

    def _buffer(self, table: Table) -> memoryview:
        start, size = table.vector(0, 1, "data") or (0, 0)
        outside = table.integer(1, U64)
        if outside > 1:  # data behind the flatbuffer, for files above 2 GiB; 0 and 1 stand for none
            start, size = outside, table.integer(2, U64)
        return self._data[start : start + size]


def _variable_name(operator: Table) -> str:
    options = operator.table(4, "options") if operator.integer(3, U8) == _VAR_HANDLE_OPTIONS else None
    if options is None:
        raise GraphError(f"{operator.where} (VAR_HANDLE) does not name its variable")
    return f"{options.text(0, 'container')}/{options.text(1, 'shared name')}"
