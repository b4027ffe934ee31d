"""Who may import whom, by the imports of every module: those inside functions and for typing included."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("aisrv", "phy", "flash_server", "host_tools")

VALUES = (
    "aisrv aisrv.protocol aisrv.ioserver_protocol aisrv.usbip aisrv.spi_link aisrv.memory_map "
    "aisrv.tflite_model"
)
"""Values at the bottom, and the package itself, which holds the version."""

SMALL = "aisrv.arrays aisrv.engine_channel aisrv.gpio aisrv.debug_log aisrv.board"

ENGINE = "aisrv.inference aisrv.engine_state aisrv.engine_acquisition aisrv.engine_commands"

SENSOR_CLIENT = "aisrv.sensors aisrv.sensors.acquire_channel"
"""What a client of the acquire task needs."""

FLASH_VALUES = (
    "flash_server.errors flash_server.nibbles flash_server.layout flash_server.part flash_server.protocol "
    "flash_server.boot flash_server.cache"
)

FLASH_CLIENT = "flash_server.errors flash_server.flash_channel flash_server.protocol"
"""What a client of the flash server needs."""

RUNS_DEVICES = "aisrv.device aisrv.attach aisrv.attach.background"

# What the modules of a row may import, apart from each other. A name stands for that module and for all below
# it that have no row of their own; "aisrv" stands for the package alone.
ALLOWED = {
    # values and the substrate: nothing of ours
    "aisrv": "",
    "aisrv.protocol": "",
    "aisrv.ioserver_protocol": "aisrv.protocol",
    "aisrv.usbip": "",
    "aisrv.spi_link": "",
    "aisrv.command_group": "",
    "aisrv.memory_map": "aisrv.protocol",
    "aisrv.tflite_model": "",
    "aisrv.tflite_writer": "",
    "aisrv.xcore": "",
    # small parts of the device
    "aisrv.arrays": "aisrv.xcore",
    "aisrv.engine_channel": "aisrv.xcore aisrv.protocol aisrv.arrays",
    "aisrv.gpio": "aisrv.protocol",
    "aisrv.gpio_vcd": "aisrv.gpio",
    "aisrv.debug_log": "",
    "aisrv.board": ("aisrv.protocol aisrv.xcore flash_server.part flash_server.cache"),
    "aisrv.toml_lines": "",
    "aisrv.toml_settings": "aisrv.toml_lines aisrv.board",
    "aisrv.board_file": (
        "aisrv.board aisrv.toml_lines aisrv.toml_settings flash_server.errors flash_server.part "
        "flash_server.cache"
    ),
    "aisrv.xn_elements": "",
    "aisrv.shipped_boards": "aisrv.board aisrv.board_file aisrv.xn_file",
    "aisrv.xn_file": "aisrv.board aisrv.board_file aisrv.xn_elements flash_server.errors flash_server.part",
    "aisrv.board_drawing": "aisrv.protocol aisrv.board",
    # sensors: frames, sources, the image path and registers; then the task that acquires
    "aisrv.sensors": "aisrv.xcore",
    "aisrv.sensors.pacing": "aisrv.sensors aisrv.xcore",
    "aisrv.sensors.sources.opening": "aisrv.sensors aisrv.sensors.pacing",
    "aisrv.sensors.acquire_channel": (
        "aisrv.xcore aisrv.protocol aisrv.arrays aisrv.engine_channel aisrv.sensors"
    ),
    "aisrv.sensors.acquire": f"aisrv.xcore aisrv.protocol aisrv.arrays {SENSOR_CLIENT}",
    # kernels: the interface, what backends share, backends, and the graph that runs models on them
    "aisrv.kernels": "aisrv.tflite_model aisrv.inference",
    # the layers
    "aisrv.inference": f"{VALUES} aisrv.xcore",
    "aisrv.inference.kernels_engine": "aisrv.inference aisrv.kernels",
    "aisrv.engine_state": f"{VALUES} aisrv.xcore {SMALL} aisrv.inference {FLASH_CLIENT} {SENSOR_CLIENT}",
    "aisrv.engine_acquisition": f"{VALUES} aisrv.xcore aisrv.arrays aisrv.engine_state {SENSOR_CLIENT}",
    "aisrv.engine_commands": (
        f"{VALUES} aisrv.xcore {SMALL} aisrv.inference aisrv.engine_state aisrv.engine_acquisition "
        f"{FLASH_CLIENT}"
    ),
    "aisrv.aiengine": f"{VALUES} aisrv.xcore {SMALL} {ENGINE}",
    "phy": f"{VALUES} aisrv.xcore aisrv.arrays aisrv.engine_channel",
    "flash_server.errors": "",
    "flash_server.nibbles": "",
    "flash_server.layout": "flash_server.errors flash_server.nibbles",
    "flash_server.part": "flash_server.errors",
    "flash_server.protocol": "flash_server.errors",
    "flash_server.boot": "flash_server.errors",
    "flash_server.cache": "flash_server.errors",
    "flash_server.flash_channel": f"aisrv.xcore {FLASH_VALUES}",
    "flash_server": f"{VALUES} aisrv.xcore aisrv.arrays {FLASH_VALUES} flash_server.flash_channel",
    "aisrv.server_upgrade": f"{VALUES} phy {FLASH_CLIENT}",
    "aisrv.flash_parameters": f"aisrv.inference {FLASH_CLIENT}",
    # the composition root, and what runs devices
    "aisrv.wiring": (
        f"{VALUES} aisrv.xcore {SMALL} {ENGINE} aisrv.aiengine aisrv.server_upgrade phy flash_server "
        f"{FLASH_VALUES} flash_server.flash_channel aisrv.flash_parameters "
        f"{SENSOR_CLIENT} aisrv.sensors.acquire aisrv.sensors.sources.opening"
    ),
    "aisrv.device": (
        f"{VALUES} aisrv.wiring aisrv.xcore {SMALL} aisrv.inference aisrv.sensors flash_server "
        f"{FLASH_VALUES} flash_server.flash_channel"
    ),
    "aisrv.status": f"{VALUES} aisrv.xcore aisrv.gpio aisrv.engine_state aisrv.device phy",
    "aisrv.attach": f"{VALUES} phy",
    "aisrv.attach.serprog_server": f"aisrv.attach flash_server {FLASH_VALUES}",
    "aisrv.attach.background": f"{VALUES} phy aisrv.attach aisrv.board aisrv.device",
    # beside the device
    "aisrv.digits": "aisrv.tflite_writer",
    "aisrv.profile": f"{VALUES} aisrv.inference",
    "host_tools": f"{VALUES} aisrv.command_group flash_server.boot",
    "flash_server.commands": f"flash_server {FLASH_VALUES}",
    "flash_server.cli": f"aisrv.command_group flash_server {FLASH_VALUES} flash_server.commands",
    "flash_server.__main__": "flash_server.cli",
    # at the top
    "aisrv.commands": (
        f"{VALUES} aisrv.toml_settings aisrv.board_drawing aisrv.shipped_boards aisrv.inference "
        f"aisrv.kernels aisrv.sensors aisrv.xcore {SMALL} aisrv.digits aisrv.profile {RUNS_DEVICES} "
        "aisrv.status aisrv.gpio_vcd "
        f"aisrv.attach.serprog_server phy flash_server {FLASH_VALUES} flash_server.flash_channel host_tools"
    ),
    "aisrv.cli": f"{VALUES} {RUNS_DEVICES} aisrv.commands",
    "aisrv.pytest_plugin": f"{VALUES} {SMALL} {RUNS_DEVICES} phy host_tools",
    "aisrv.__main__": "aisrv.cli",
}

LIGHT = ("aisrv", "aisrv.cli", "aisrv.pytest_plugin", "host_tools.cli", "flash_server.cli")
"""Modules that load at once: they, and what of ours they load, import none of HEAVY on the way."""

HEAVY = ("numpy", "tflite_runtime", "ai_edge_litert", "PIL", "rich", "sklearn", "usb", "trio")


@dataclass(frozen=True)
class Import:
    """One import of one module; `lazy` where it runs later than the module does, or never."""

    line: int
    target: str
    lazy: bool
    typing: bool


def modules_of(root: Path) -> dict[str, Path]:
    """All modules of ours by dotted name."""
    found = {}
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def _for_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _statements(body: list[ast.stmt], lazy: bool, typing: bool) -> Iterator[tuple[ast.stmt, bool, bool]]:
    for node in body:
        yield node, lazy, typing
        inner_lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for name in ("body", "orelse", "finalbody"):
            inner_typing = typing or (name == "body" and _for_typing(node))
            yield from _statements(getattr(node, name, []), inner_lazy, inner_typing)
        for block in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from _statements(block.body, inner_lazy, typing)


def imports_of(module: str, path: Path, modules: dict[str, Path]) -> list[Import]:
    """Every import of a module, each under the name of the module that it loads."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    found = []
    for node, lazy, typing in _statements(ast.parse(path.read_text()).body, lazy=False, typing=False):
        targets: list[str] = []
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                above = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*above, base] if base else above)
            names = [f"{base}.{alias.name}" for alias in node.names]
            targets = [name if name in modules else base for name in names]
        found += [Import(node.lineno, target, lazy or typing, typing) for target in dict.fromkeys(targets)]
    return found


def _covers(name: str, module: str) -> bool:
    return module == name or (name != "aisrv" and module.startswith(name + "."))


def _row(module: str) -> str | None:
    return max((name for name in ALLOWED if _covers(name, module)), key=len, default=None)


def breaches(root: Path) -> list[str]:
    """Every import that the table does not allow, as `module:line imports target`."""
    modules = modules_of(root)
    found = []
    for module, path in modules.items():
        row = _row(module)
        if row is None:
            found.append(f"{module} is in no row of the table")
            continue
        allowed = ALLOWED[row].split()
        for each in imports_of(module, path, modules):
            ours = each.target.split(".")[0] in PACKAGES
            target_row = _row(each.target)
            if ours and target_row != row and target_row not in allowed:
                found.append(f"{module}:{each.line} imports {each.target}")
    return found


def xcore_order(root: Path) -> list[str]:
    """The modules of the substrate from the bottom up, as its docstring lists them."""
    text = ast.get_docstring(ast.parse((root / "aisrv/xcore/__init__.py").read_text())) or ""
    return re.findall(r"`(\w+)`", text.partition("from the bottom up")[2])


def xcore_breaches(root: Path) -> list[str]:
    """Imports of the substrate that go upwards; what is imported for typing may be anywhere.

    A module that the docstring does not list stands below them all.
    """
    modules = modules_of(root)
    places = {f"aisrv.xcore.{name}": place for place, name in enumerate(xcore_order(root))}
    return [
        f"{module}:{each.line} imports {each.target}"
        for module, path in modules.items()
        if module.startswith("aisrv.xcore.")
        for each in imports_of(module, path, modules)
        if each.target.startswith("aisrv.xcore")
        and not each.typing
        and places.get(each.target, -1) >= places.get(module, -1)
    ]


def heavy_breaches(root: Path) -> list[str]:
    """Heavy imports that run when a light module is loaded, with the way that leads there."""
    modules = modules_of(root)
    found = []
    for start in LIGHT:
        ways = [[start]] if start in modules else []
        seen = {start}
        while ways:
            way = ways.pop()
            for each in imports_of(way[-1], modules[way[-1]], modules):
                if each.lazy:
                    continue
                if each.target.split(".")[0] in HEAVY:
                    found.append(f"{' -> '.join(way)}:{each.line} imports {each.target}")
                parts = each.target.split(".")
                loaded = [
                    ".".join(parts[:end]) for end in range(1, len(parts) + 1)
                ]  # its packages come first
                new = [name for name in loaded if name in modules and name not in seen]
                seen.update(new)
                ways += [[*way, name] for name in new]
    return found


# The product.


def test_every_import_goes_the_way_the_table_allows() -> None:
    assert breaches(ROOT) == []


def test_substrate_imports_downwards_only() -> None:
    assert xcore_breaches(ROOT) == []


def test_docstring_of_the_substrate_names_modules_that_are_there() -> None:
    order = xcore_order(ROOT)
    assert len(order) == len(set(order)) >= 10
    assert [name for name in order if not (ROOT / f"aisrv/xcore/{name}.py").exists()] == []


def test_commands_and_plugin_load_without_heavy_libraries() -> None:
    assert heavy_breaches(ROOT) == []


def test_every_row_of_the_table_is_about_something() -> None:
    names = [*ALLOWED, *(name for row in ALLOWED.values() for name in row.split())]
    modules = modules_of(ROOT)
    assert [name for name in names if name not in modules] == []


# The check itself, on a tree that was made up.


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for package in ("aisrv", "aisrv/xcore", "aisrv/attach", "phy", "phy/usb", "flash_server", "host_tools"):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").touch()
    order = '"""Substrate; from the bottom up: `tokens`, `chanend`, `node`."""\n'
    (tmp_path / "aisrv/xcore/__init__.py").write_text(order)
    return tmp_path


def write(tree: Path, module: str, text: str) -> None:
    (tree / (module.replace(".", "/") + ".py")).write_text(text)


def test_clean_tree_has_no_breach(tree: Path) -> None:
    write(tree, "aisrv.protocol", "import struct\n")
    write(tree, "aisrv.xcore.tokens", "")
    write(
        tree,
        "phy.usb.data",
        "from aisrv import protocol\nfrom aisrv.xcore.tokens import Run\nfrom phy import usb\n",
    )
    write(tree, "aisrv.wiring", "import aisrv\nfrom phy.usb import data\n")
    write(tree, "aisrv.device", "import aisrv\nfrom aisrv import wiring\n")
    write(tree, "aisrv.attach.background", "from aisrv.device import open_device\n")
    assert breaches(tree) == []


@pytest.mark.parametrize(
    ("module", "text", "found"),
    [
        ("aisrv.protocol", "import aisrv.usbip", "aisrv.protocol:1 imports aisrv.usbip"),
        (
            "aisrv.xcore.tokens",
            "from aisrv.protocol import Status",
            "aisrv.xcore.tokens:1 imports aisrv.protocol",
        ),
        ("phy.usb.data", "\nfrom aisrv.device import Device", "phy.usb.data:2 imports aisrv.device"),
        ("phy.usb.data", "from aisrv import aiengine", "phy.usb.data:1 imports aisrv.aiengine"),
        (
            "phy.usb.data",
            "from aisrv.attach import inprocess",
            "phy.usb.data:1 imports aisrv.attach.inprocess",
        ),
        ("aisrv.inference.engine", "from phy.usb import bus", "aisrv.inference.engine:1 imports phy.usb.bus"),
        ("aisrv.attach.inprocess", "import aisrv.device", "aisrv.attach.inprocess:1 imports aisrv.device"),
        (
            "aisrv.attach.inprocess",
            "from aisrv.attach import background",
            "aisrv.attach.inprocess:1 imports aisrv.attach.background",
        ),
        ("host_tools.client", "from aisrv.board import Board", "host_tools.client:1 imports aisrv.board"),
        ("aisrv.device", "import host_tools", "aisrv.device:1 imports host_tools"),
        ("aisrv.gpio", "from aisrv.xcore import node", "aisrv.gpio:1 imports aisrv.xcore.node"),
    ],
)
def test_breach_is_found(tree: Path, module: str, text: str, found: str) -> None:
    (tree / "aisrv/inference").mkdir()
    for name in (
        "usbip",
        "aiengine",
        "attach.inprocess",
        "attach.background",
        "inference.engine",
        "xcore.node",
    ):
        write(tree, f"aisrv.{name}", "")
    write(tree, "phy.usb.bus", "")
    write(tree, module, text)
    assert breaches(tree) == [found]


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n    from aisrv.device import Device",
        "async def f():\n    import aisrv.device",
        "class C:\n    def f(self):\n        from aisrv.device import Device",
        "if TYPE_CHECKING:\n    from aisrv.device import Device",
        "try:\n    import json\nexcept ImportError:\n    from aisrv.device import Device",
        "with x:\n    pass\nfor _ in y:\n    import aisrv.device as d",
        "match x:\n    case 1:\n        from aisrv.device import Device",
        "while x:\n    from aisrv import device",
    ],
)
def test_breach_is_found_wherever_the_import_stands(tree: Path, text: str) -> None:
    write(tree, "aisrv.device", "")
    write(tree, "phy.usb.data", text)
    line = text.count("\n") + 1
    assert breaches(tree) == [f"phy.usb.data:{line} imports aisrv.device"]


def test_relative_imports_count(tree: Path) -> None:
    write(tree, "aisrv.device", "")
    write(
        tree,
        "aisrv.attach.inprocess",
        "from ..device import Device\nfrom .. import device\nfrom . import other\n",
    )
    assert breaches(tree) == [
        "aisrv.attach.inprocess:1 imports aisrv.device",
        "aisrv.attach.inprocess:2 imports aisrv.device",
    ]


def test_module_that_the_table_forgot_is_found(tree: Path) -> None:
    write(tree, "aisrv.novelty", "")
    assert breaches(tree) == ["aisrv.novelty is in no row of the table"]


def test_substrate_may_not_import_upwards(tree: Path) -> None:
    write(tree, "aisrv.xcore.tokens", "if TYPE_CHECKING:\n    from aisrv.xcore.node import Node\n")
    write(
        tree,
        "aisrv.xcore.chanend",
        "from aisrv.xcore.tokens import Run\ndef f():\n    from aisrv.xcore import node\n",
    )
    write(tree, "aisrv.xcore.node", "from aisrv.xcore import chanend, unlisted\n")
    write(tree, "aisrv.xcore.unlisted", "from aisrv.xcore.tokens import Run\n")
    assert xcore_breaches(tree) == [
        "aisrv.xcore.chanend:3 imports aisrv.xcore.node",
        "aisrv.xcore.unlisted:1 imports aisrv.xcore.tokens",
    ]


def test_heavy_import_is_found_with_the_way_to_it(tree: Path) -> None:
    write(
        tree,
        "host_tools.cli",
        "import click\nfrom host_tools.tensors import read\nimport aisrv.attach.inprocess\n",
    )
    write(tree, "aisrv.attach.__init__", "import sklearn\n")
    write(tree, "aisrv.attach.inprocess", "")
    write(tree, "host_tools.tensors", "def f():\n    import rich\nif True:\n    import numpy as np\n")
    write(tree, "aisrv.cli", "if TYPE_CHECKING:\n    import trio\nimport usb.core\n")
    assert heavy_breaches(tree) == [
        "aisrv.cli:3 imports usb.core",
        "host_tools.cli -> aisrv.attach:1 imports sklearn",
        "host_tools.cli -> host_tools.tensors:4 imports numpy",
    ]
