"""A Cortex-M core that executes the code of one instance, in `unicorn`.

Flash is mapped readable and executable. Of the RAM only the pages of the instance are there, and only those
of a copied image are executable; so code that runs astray meets nothing that it could break. `unicorn` comes
with the extra `relocatable` and is imported when the first machine is made.
"""

import ctypes
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from aisrv.addons.kernels.relocatable.memory import Memory, Span
from aisrv.model.relocatable.container import PAGE, Core
from aisrv.model.relocatable.errors import ExecutionFault, MachineError
from aisrv.values.extras import import_failure

if TYPE_CHECKING:
    from unicorn import Uc

TRAP_PAGE: Final = 0x1FFF_0000
"""Return address of code; it is executable and holds `bx lr`, by which observers are called."""
OBSERVER: Final = TRAP_PAGE + 0x100
STACK_TOP: Final = 0x3FFF_F000
STACK_BYTES: Final = 64 * 1024
SCRATCH: Final = STACK_TOP - STACK_BYTES - 0x10000
"""Memory for the structures of a call."""
SCRATCH_BYTES: Final = 0x4000

_TRANSLATION_BYTES: Final = 4 << 20
"""Memory for translated code; unicorn would take 1 GiB of address space, more than a worker may have."""

_BX_LR: Final = b"\x70\x47"
_FULL_ACCESS: Final = 0x00F0_0000
"""Value of CPACR: coprocessors 10 and 11, the FPU."""
_FPU_ON: Final = 0x4000_0000
"""Value of FPEXC."""

_BLOCK_HOOK: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_void_p
)
_LOAD_HOOK: Final = ctypes.CFUNCTYPE(
    None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint64, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p
)
"""`uc_cb_hookcode_t` and `uc_cb_hookmem_t`."""

Observer = Callable[[int, int, int], None]
"""Called with the observer's three arguments: cookie, moment, address of the node's report."""


class Machine:
    """One core with its memory map."""

    def __init__(self, core: Core, *, has_fpu: bool, seconds: float | None) -> None:
        """Create one without flash and RAM. Raises MachineError without `unicorn`.

        Each call may take `seconds`; None is for callers who bound them from outside. A limit costs 45 µs a
        call, in which unicorn starts a thread.
        """
        unicorn = _unicorn()
        self._error: type[Exception] = unicorn.UcError
        arm = unicorn.arm_const
        self._arm: Any = arm
        self._prot: Any = unicorn.unicorn_const
        self._uc: Uc = unicorn.Uc(unicorn.UC_ARCH_ARM, unicorn.UC_MODE_THUMB | unicorn.UC_MODE_MCLASS)
        self._uc.ctl_set_tcg_buffer_size(_TRANSLATION_BYTES)
        self._uc.ctl_set_cpu_model(getattr(arm, f"UC_CPU_ARM_{core.name}"))
        if has_fpu:
            self._uc.reg_write(arm.UC_ARM_REG_C1_C0_2, _FULL_ACCESS)
            self._uc.reg_write(arm.UC_ARM_REG_FPEXC, _FPU_ON)
        self._microseconds = 0 if seconds is None else max(1, int(seconds * 1e6))
        self._seconds = seconds or 0.0
        self._pages: dict[int, int] = {}
        self._observer: Observer | None = None
        self._failure: BaseException | None = None
        self._hooks: list[object] = []
        self._uc.mem_map(TRAP_PAGE, PAGE, self._prot.UC_PROT_READ | self._prot.UC_PROT_EXEC)
        self._uc.mem_write(TRAP_PAGE, _BX_LR * (PAGE // 2))
        read_write = self._prot.UC_PROT_READ | self._prot.UC_PROT_WRITE
        self._uc.mem_map(STACK_TOP - STACK_BYTES, STACK_BYTES, read_write)
        self._uc.mem_map(SCRATCH, SCRATCH_BYTES, read_write)
        self._uc.hook_add(
            unicorn.UC_HOOK_CODE, self._observed, begin=OBSERVER, end=OBSERVER + len(_BX_LR) - 1
        )

    def map_flash(self, flash: Memory) -> None:
        span = flash.span
        prot = self._prot.UC_PROT_READ | self._prot.UC_PROT_EXEC
        self._uc.mem_map_ptr(span.start, span.end - span.start, prot, flash.host_address(span.start))

    def map_ram(self, ram: Memory, span: Span, *, executable: bool = False) -> None:
        """Map the pages of a part of the RAM; mapped ones stay, and may become executable."""
        prot = self._prot.UC_PROT_READ | self._prot.UC_PROT_WRITE
        if executable:
            prot |= self._prot.UC_PROT_EXEC
        for first, last, old in _runs(self._pages, span):
            size = last - first
            if old is None:
                self._uc.mem_map_ptr(first, size, prot, ram.host_address(first))
            elif prot | old != old:
                self._uc.mem_protect(first, size, prot | old)
            for page in range(first, last, PAGE):
                self._pages[page] = prot | (old or 0)

    def observe(self, observer: Observer | None) -> None:
        """Call this when code calls OBSERVER."""
        self._observer = observer

    def count_blocks(self, counted: Callable[[int, int], None]) -> Callable[[], None]:
        """Call `counted(address, size)` for each run of instructions; the result ends that."""
        stop = self.stop

        def block(_uc: object, address: int, size: int, _data: object) -> None:
            try:
                counted(address, size)
            except BaseException as error:
                stop(error)

        return self._hook(Span(0, 1 << 32), (self._prot.UC_HOOK_BLOCK, _BLOCK_HOOK(block)))

    def trace(self, memory: Memory, touched: Callable[[int, int], None]) -> Callable[[], None]:
        """Call `touched(address, size)` for each run of instructions and each load from a memory.

        The result ends that; `touched` may call it.
        """
        stop = self.stop

        def block(_uc: object, address: int, size: int, _data: object) -> None:
            try:
                touched(address, size)
            except BaseException as error:
                stop(error)

        def load(_uc: object, _kind: int, address: int, size: int, _value: int, _data: object) -> None:
            try:
                touched(address, size)
            except BaseException as error:
                stop(error)

        hooks = (
            (self._prot.UC_HOOK_BLOCK, _BLOCK_HOOK(block)),
            (self._prot.UC_HOOK_MEM_READ, _LOAD_HOOK(load)),
        )
        return self._hook(memory.span, *hooks)

    def _hook(self, span: Span, *hooks: tuple[int, object]) -> Callable[[], None]:
        """Add hooks for addresses of a span; the result ends them.

        They bypass unicorn's binding, which would take longer for a call than what is called.
        """
        from unicorn.unicorn_py3.unicorn import uclib

        uc, handles = self._uc, []
        for kind, callback in hooks:
            handle = ctypes.c_size_t()
            limits = ctypes.c_uint64(span.start), ctypes.c_uint64(span.end - 1)
            status = uclib.uc_hook_add(uc._uch, ctypes.byref(handle), kind, callback, None, *limits)
            if status:
                raise MachineError(f"unicorn takes no hook: error {status}")
            self._hooks.append(callback)  # for as long as the machine may call it
            handles.append(handle)
        uc.ctl_flush_tb()

        def end() -> None:
            while handles:
                uclib.uc_hook_del(uc._uch, handles.pop())

        return end

    def stop(self, error: BaseException) -> None:
        """Stop the running code; its `call` raises the error."""
        self._failure = error
        self._uc.emu_stop()

    def forget_code(self) -> None:
        """Translate code anew when it is executed next: the memory was changed from outside."""
        self._uc.ctl_flush_tb()

    def write(self, address: int, data: bytes) -> None:
        """Write bytes into memory of a call, in SCRATCH."""
        self._uc.mem_write(address, data)

    def read(self, address: int, size: int) -> bytes:
        """Read what the machine sees. Raises ExecutionFault for unmapped addresses."""
        try:
            return bytes(self._uc.mem_read(address, size))
        except self._error as error:
            raise ExecutionFault(f"{size} bytes at {address:#010x}: {error}") from None

    def call(self, entry: int, r9: int, arguments: Sequence[int] = ()) -> int:
        """Call code with at most four arguments; return its result.

        ExecutionFault for an access or a branch to unmapped memory, and for a call that takes too long.
        """
        arm, uc = self._arm, self._uc
        values = [value & 0xFFFFFFFF for value in arguments] + [0] * (4 - len(arguments))
        uc.reg_write_batch(
            [
                (arm.UC_ARM_REG_R0, values[0]),
                (arm.UC_ARM_REG_R1, values[1]),
                (arm.UC_ARM_REG_R2, values[2]),
                (arm.UC_ARM_REG_R3, values[3]),
                (arm.UC_ARM_REG_R9, r9),
                (arm.UC_ARM_REG_SP, STACK_TOP - 8),
                (arm.UC_ARM_REG_LR, TRAP_PAGE | 1),
            ]
        )
        self._failure = None
        try:
            uc.emu_start(entry | 1, TRAP_PAGE, timeout=self._microseconds)
        except self._error as error:
            where = uc.reg_read(arm.UC_ARM_REG_PC)
            raise ExecutionFault(f"the code faulted at {where:#010x}: {error}") from None
        if self._failure is not None:
            raise self._failure
        where = uc.reg_read(arm.UC_ARM_REG_PC)
        if where & ~1 != TRAP_PAGE:
            raise ExecutionFault(f"the code was at {where:#010x} after {self._seconds:g} s and was stopped")
        return int(uc.reg_read(arm.UC_ARM_REG_R0))

    def _observed(self, uc: "Uc", _address: int, _size: int, _data: object) -> None:
        arm = self._arm
        if self._observer is None:
            return
        try:
            self._observer(
                uc.reg_read(arm.UC_ARM_REG_R0), uc.reg_read(arm.UC_ARM_REG_R1), uc.reg_read(arm.UC_ARM_REG_R2)
            )
        except BaseException as error:
            self.stop(error)


def _runs(pages: dict[int, int], span: Span) -> list[tuple[int, int, int | None]]:
    """Return the pages of a span in runs that are mapped alike: first address, end, protection or None."""
    runs: list[tuple[int, int, int | None]] = []
    for page in span.pages():
        old = pages.get(page)
        if runs and runs[-1][1] == page and runs[-1][2] == old:
            runs[-1] = (runs[-1][0], page + PAGE, old)
        else:
            runs.append((page, page + PAGE, old))
    return runs


def _unicorn() -> Any:  # noqa: ANN401 - the module is untyped
    try:
        import unicorn
        import unicorn.arm_const
        import unicorn.unicorn_const
    except ImportError as error:
        raise MachineError(import_failure("relocatable code needs unicorn", error, "relocatable")) from error
    return unicorn
