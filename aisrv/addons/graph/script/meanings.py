"""Functions of the instructions of scripts, each of the machine and the instruction."""

from collections.abc import Callable
from typing import Final

from aisrv.addons.graph.script.instructions import (
    NO_REGISTER,
    PRE,
    STACK_PUSH,
    STACK_TOP,
    TYPE_BYTES,
    UPDATE,
    Instruction,
    Special,
    Type,
)
from aisrv.addons.graph.script.state import HEAP, Register, ScriptFault, ScriptState, type_of
from aisrv.addons.graph.script.values import (
    ADDMOD,
    ARITHMETIC,
    BITWISE,
    COMPARISONS,
    NORM,
    SUBMOD,
    Number,
    bits_of,
    integer_of,
    normalize,
    number_of,
    result_type,
    single,
)

ARC_READ: Final = 9
IO_READ: Final = 3
NODE_READ: Final = 3
TIME_FORMATS: Final = (41, 42, 43, 44)


def test(machine: ScriptState, instruction: Instruction) -> None:
    """Set the flag: DST against the value."""
    value = _value(machine, instruction)
    tested = machine.read(instruction.dst)
    machine.flag = COMPARISONS[instruction.op](
        number_of(tested.value, tested.kind), number_of(value.value, value.kind)
    )


def assign(machine: ScriptState, instruction: Instruction) -> None:
    value = _value(machine, instruction)
    machine.write(instruction.dst, value.value, value.type)


def _value(machine: ScriptState, instruction: Instruction) -> Register:
    """Return the value of a test or an assignment: an operand, or the ALU's result of SRC1 and an operand."""
    if instruction.opar == NORM:
        return _norm(machine, instruction)
    second = machine.operand(instruction)
    if instruction.opar == 0:
        return second
    first = machine.read(instruction.src1)
    kind = result_type(first.kind, second.kind)
    a, b = number_of(first.value, first.kind), number_of(second.value, second.kind)
    result: Number
    if instruction.opar in ARITHMETIC:
        if kind == Type.FLOAT:
            a, b = single(a), single(b)
        result = ARITHMETIC[instruction.opar](a, b)
    elif instruction.opar in (ADDMOD, SUBMOD):
        kind = Type.INT32 if kind == Type.FLOAT else kind
        result = _modulo(first, integer_of(a), integer_of(b) * (1 if instruction.opar == ADDMOD else -1))
    elif instruction.opar in BITWISE:
        kind = Type.INT32 if kind == Type.FLOAT else kind
        result = BITWISE[instruction.opar](integer_of(a), integer_of(b))
    else:
        raise ScriptFault("opcode", f"unknown operation {instruction.opar}")
    return Register(bits_of(result, kind), (first.type & ~15) | kind)


def _norm(machine: ScriptState, instruction: Instruction) -> Register:
    if instruction.k12 & ~15:
        raise ScriptFault("opcode", "norm without a register for the count")
    first = machine.read(instruction.src1)
    value, count = normalize(integer_of(number_of(first.value, first.kind)))
    machine.write(instruction.src2, count, Type.INT32)
    kind = Type.UINT32 if result_type(first.kind, first.kind) == Type.UINT32 else Type.INT32
    return Register(value, kind)


def set_type(machine: ScriptState, instruction: Instruction) -> None:
    """Relabel a register with a type; its bits stay."""
    kind = type_of(_constant(instruction))
    register = machine.place_of(instruction.dst)
    register.type = (register.type & ~15) | kind


def set_range(machine: ScriptState, instruction: Instruction) -> None:
    """Set BASE or SIZE of a register's type word."""
    value = machine.operand(instruction)
    whole = integer_of(number_of(value.value, value.kind)) & 0x3FF
    register = machine.place_of(instruction.dst)
    shift = 14 if instruction.opar == Special.SET_BASE else 4
    register.type = (register.type & ~(0x3FF << shift)) | whole << shift


def set_pointer(machine: ScriptState, instruction: Instruction) -> None:
    """Point to a byte of the parameters or the heap, or take the word of a node."""
    offset = machine.operand(instruction)
    if instruction.opar == Special.SET_GRAPH:
        machine.write(instruction.dst, offset.value, Type.UINT32)
    else:
        heap = HEAP if instruction.opar == Special.SET_HEAP else 0
        machine.write(instruction.dst, offset.value, heap | Type.UINT8)


def _address(pointer: Register, low: int) -> int:
    """Return the address that a pointer and bits 13:0 give; they may update the pointer."""
    constant = (low & 0xFFF) - 2048
    if low & (UPDATE | PRE) == 0:
        return pointer.value
    if not constant >= -2016:
        raise ScriptFault("opcode", "a pointer with an offset that is not a constant")
    before, after = pointer.value, (pointer.value + constant) & 0xFFFFFFFF
    if low & UPDATE:
        pointer.value = after
    return after if low & PRE else before


def store(machine: ScriptState, instruction: Instruction) -> None:
    """Write to memory in the pointer's type."""
    source = machine.read(instruction.src1)
    value = number_of(source.value, source.kind)
    pointer = machine.place_of(instruction.dst)
    kind = pointer.kind
    address = _address(pointer, instruction.low)
    memory = machine.memory(pointer, address, TYPE_BYTES[kind], write=True)
    memory[:] = (bits_of(value, kind) & ((1 << 8 * len(memory)) - 1)).to_bytes(len(memory), "little")


def load(machine: ScriptState, instruction: Instruction) -> None:
    """Read from memory in the pointer's type."""
    pointer = machine.place_of(instruction.src1)
    kind = pointer.kind
    address = _address(pointer, instruction.low)
    memory = machine.memory(pointer, address, TYPE_BYTES[kind], write=False)
    machine.write(instruction.dst, int.from_bytes(memory, "little"), kind)


def insert_bits(machine: ScriptState, instruction: Instruction) -> None:
    """Put the low bits of a register into some of another."""
    lsb, mask = _bit_range(instruction)
    value = machine.number(instruction.src1)
    register = machine.place_of(instruction.dst)
    register.value = (register.value & ~(mask << lsb) | (value & mask) << lsb) & 0xFFFFFFFF


def extract_bits(machine: ScriptState, instruction: Instruction) -> None:
    """Take some bits of a register."""
    lsb, mask = _bit_range(instruction)
    register = machine.read(instruction.src1)
    value = integer_of(number_of(register.value, register.kind))
    machine.write(instruction.dst, value >> lsb & mask, Type.UINT32)


def swap(machine: ScriptState, instruction: Instruction) -> None:
    second, first = machine.read(instruction.src1), machine.read(instruction.dst)
    values = (first.value, first.type, second.value, second.type)
    machine.write(instruction.src1, values[0], values[1])
    machine.write(instruction.dst, values[2], values[3])


def delete(machine: ScriptState, instruction: Instruction) -> None:
    """Take places off the stack; the upper one goes to a register if one is named."""
    count = _constant(instruction)
    if not 0 <= count <= machine.depth:
        raise ScriptFault("stack", f"{count} places of {machine.depth} cannot be deleted")
    top = machine.place(STACK_TOP)
    machine.depth -= count
    if instruction.dst != NO_REGISTER:
        machine.write(instruction.dst, top.value, top.type)


def branch(machine: ScriptState, instruction: Instruction) -> None:
    """Jump, call, or count down and jump."""
    target = machine.at + _constant(instruction)
    if instruction.opar == Special.BANZ:
        register = machine.place_of(instruction.dst)
        register.value = (register.value - 1) & 0xFFFFFFFF
        if not register.value:
            return
    else:
        given = [index for index in (instruction.dst, instruction.src1) if index != NO_REGISTER]
        for register in [machine.read(index) for index in given]:
            machine.write(STACK_PUSH, register.value, register.type)
        if instruction.opar == Special.CALL:
            machine.write(STACK_PUSH, machine.pc, Type.UINT32)
            machine.calls += 1
    machine.pc = target


def return_(machine: ScriptState, _: Instruction) -> bool:
    """Go back behind the call; return False outside of one, which ends the run."""
    if not machine.calls:
        return False
    machine.calls -= 1
    machine.pc = machine.pop().value
    return True


def save(machine: ScriptState, instruction: Instruction) -> None:
    """Push registers from left to right."""
    for index in _register_list(instruction):
        register = machine.read(index)
        machine.write(STACK_PUSH, register.value, register.type)


def restore(machine: ScriptState, instruction: Instruction) -> None:
    """Pop registers from right to left."""
    for index in reversed(_register_list(instruction)):
        register = machine.pop()
        machine.write(index, register.value, register.type)


def callsys(machine: ScriptState, instruction: Instruction) -> None:
    """Ask the graph for a service."""
    handler = _SERVICES.get(instruction.low & 63)
    if handler is None:
        raise ScriptFault("service", f"unknown service {instruction.low & 63}")
    handler(machine, instruction)


def _service_with_data(
    machine: ScriptState,
    instruction: Instruction,
    call: Callable[[int, int, memoryview], int],
    read_command: int,
) -> None:
    """Call a service with (number, command, data, bytes); the last operand gets the bytes moved."""
    size = machine.number(instruction.src4)
    pointer = instruction.src3
    # The data's register comes before the command's: operands act from right to left.
    held = machine.read(pointer) if pointer != NO_REGISTER else None
    command, number = machine.number(instruction.src1), machine.number(instruction.dst)
    write = command & 15 == read_command
    data = memoryview(b"") if held is None else machine.memory(held, held.value, size, write=write)
    moved = call(number, command, data)
    if instruction.src4 != NO_REGISTER:
        machine.write(instruction.src4, moved, Type.INT32)


def _node_service(machine: ScriptState, instruction: Instruction) -> None:
    _service_with_data(machine, instruction, machine.services.node, NODE_READ)


def _arc_service(machine: ScriptState, instruction: Instruction) -> None:
    _service_with_data(machine, instruction, machine.services.arc, ARC_READ)


def _io_service(machine: ScriptState, instruction: Instruction) -> None:
    _service_with_data(machine, instruction, machine.services.io_settings, IO_READ)


def _application_service(machine: ScriptState, instruction: Instruction) -> None:
    places = (instruction.src4, instruction.src3, instruction.src1, instruction.dst)
    third, second, first, number = (machine.number(index) for index in places)
    machine.services.application(number, first, second, third)


def _time_service(machine: ScriptState, instruction: Instruction) -> None:
    time_format = machine.number(instruction.dst)
    if time_format not in TIME_FORMATS:
        raise ScriptFault("service", f"unknown time format {time_format}")
    low, high = machine.services.time(time_format)
    for index, value in ((instruction.src3, high), (instruction.src1, low)):
        if index != NO_REGISTER:
            machine.write(index, value, Type.UINT32)


def _constant(instruction: Instruction) -> int:
    constant = instruction.constant
    if constant is None:
        raise ScriptFault("opcode", "a constant is missing")
    return constant


def _bit_range(instruction: Instruction) -> tuple[int, int]:
    """Return the lowest bit and the mask of the bits from there."""
    lsb, msb = instruction.low & 63, instruction.low >> 6 & 63
    if not lsb <= msb < 32:
        raise ScriptFault("opcode", f"bits {lsb} to {msb}")
    return lsb, (1 << (msb - lsb + 1)) - 1


def _register_list(instruction: Instruction) -> list[int]:
    """Return the registers of `save` and `restore`, in the order of the text."""
    places = (instruction.dst, instruction.src1, instruction.src2, instruction.src3, instruction.src4)
    return [index for index in places if index != NO_REGISTER]


def _modulo(register: Register, value: int, step: int) -> int:
    """Return a value moved by a step in BASE to BASE + SIZE - 1; without a SIZE, anywhere."""
    base, size = register.type >> 14 & 0x3FF, register.type >> 4 & 0x3FF
    return base + (value - base + step) % size if size else value + step


_SERVICES: Final[dict[int, Callable[[ScriptState, Instruction], None]]] = {
    1: _node_service,
    2: _arc_service,
    3: _application_service,
    4: _io_service,
    9: _time_service,
}
