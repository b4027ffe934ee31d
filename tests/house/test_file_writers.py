"""Files are written whole, by one function; each other one that opens a file for writing has its reason."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tests.support.paths import ROOT, product_sources

ELSEWHERE: Final = {
    "aisrv/values/whole_file.py write_among_many": "the one place",
    "aisrv/values/whole_file.py _held": "the file beside the one that is written",
    "aisrv/values/whole_file.py _remove_left": "opens what a killed process left, to look for its lock",
    "phy/usb/taps/capture.py CaptureFile.__init__": "a recording: it has what was captured so far",
    "aisrv/monitor/trace/sinks.py FileSink.__init__": "a recording",
    "aisrv/monitor/xscope_recording.py XscopeLines.__init__": "a recording",
    "phy/vcd_recording.py VcdRecording.__init__": "a recording",
    "aisrv/addons/pins/peripherals/uart_output.py UartFile.__init__": "a recording of what a UART receives",
    "aisrv/addons/graph/device.py DeviceGraph._driver": "a recording of what a graph sends",
    "flash_server/chip/storage.py _nameless": "an erased chip, which gets its name when it is whole",
    "aisrv/addons/kernels/images/compiler.py _compile": "in a temporary directory",
    "aisrv/addons/firmware/compiler.py _alone": "a lock",
    "aisrv/addons/firmware/compiler.py runtime": "in a temporary directory",
    "aisrv/attach/preload/tree.py PreloadTree._add_device": "in a temporary directory",
    "aisrv/attach/preload/tree.py PreloadTree._write": "in a temporary directory",
    "aisrv/attach/preload/tree.py ReadyFifo.__init__": "a pipe",
    "aisrv/attach/preload/spidev.py _add_spidev": "in a temporary directory",
    "aisrv/attach/preload/spidev.py add_spidevs": "in a temporary directory",
    "aisrv/attach/usbip/vhci.py Vhci.check": "a file of sysfs",
    "aisrv/attach/usbip/vhci.py Vhci.write": "a file of sysfs",
    "aisrv/attach/spidev/cuse.py _open": "a device",
    "host_tools/standins/spidev.py SpiDev.open_path": "a device",
    "aisrv/terminal/command_group.py _end_without_output": "/dev/null",
    "aisrv/addons/jacdac/task/engine_client.py EngineClient._load": "in the device's flash",
    "aisrv/values/private_directory.py _hold": "a lock",
    "aisrv/values/private_directory.py _remove_if_left": "a lock",
}
"""Functions that open files for writing by themselves, and why."""


_WRITING: Final = (
    r"\b(write_text|write_bytes|tofile|savez|memmap|NamedTemporaryFile|copy\w*|save|(fd)?open)\("
)
"""What is in the text of every module with such a call."""


def _is_write(call: ast.Call) -> bool:
    """Whether a call makes or changes a file, as far as its text shows."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    if name in ("write_text", "write_bytes", "tofile", "savez", "memmap", "NamedTemporaryFile"):
        return True
    if name.startswith("copy"):
        return ast.unparse(call.func).startswith("shutil.")
    if name == "save":
        return ast.unparse(call.args[0]) != "content"  # which is memory, by custom
    if name not in ("open", "fdopen"):
        return False
    words = [str(node.value) for node in ast.walk(call) if isinstance(node, ast.Constant)]
    changes = any(set(word) <= set("rwxabt+") and set(word) & set("wxa+") for word in words)
    return changes or any(flag in ast.unparse(call) for flag in ("O_RDWR", "O_WRONLY", "O_CREAT"))


def _writers(path: Path, source: str) -> Iterator[str]:
    """Yield the module and the qualified name of each function with such a call."""

    def walk(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
        if isinstance(node, ast.Call) and _is_write(node):
            yield f"{path.relative_to(ROOT)} {'.'.join(names)}"
        for child in ast.iter_child_nodes(node):
            yield from walk(child, names)

    yield from walk(ast.parse(source), ())


def test_only_whole_files_are_written() -> None:
    sources = product_sources(_WRITING)
    assert {writer for each in sources.items() for writer in _writers(*each)} == set(ELSEWHERE)
