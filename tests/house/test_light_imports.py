"""Commands and the pytest plugin load at once: heavy libraries wait until they are used."""

import sys

import pytest

from tests.support.programs import run_process

LIGHT = ("aisrv", "aisrv.cli.main", "aisrv.pytest_plugin", "host_tools.cli", "flash_server.cli")
HEAVY = (
    "ai_edge_litert",
    "jinja2",
    "numpy",
    "PIL",
    "dask",
    "distributed",
    "pyarrow",
    "rich",
    "sklearn",
    "tflite_runtime",
    "trio",
    "usb",
)


def test_modules_load_without_heavy_libraries() -> None:
    """One after the other in one process: what one of them loads is said behind its name."""
    script = (
        "import importlib, sys\n"
        f"for name in {LIGHT}:\n"
        "    importlib.import_module(name)\n"
        f"    print(name, sorted(set({HEAVY}) & set(sys.modules)))"
    )
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout.splitlines() == [f"{name} []" for name in LIGHT]


def test_a_python_that_finds_the_package_imports_nothing_for_it() -> None:
    """An editable install with a hook costs each Python 13 ms."""
    done = run_process([sys.executable, "-P", "-c", "import sys; print(*sys.modules)"], check=True)
    assert [name for name in done.stdout.split() if "aisrv" in name] == []


def test_help_loads_no_library_of_clusters_or_tables() -> None:
    unwanted = {"dask", "distributed", "numpy", "pyarrow", "trio"}
    script = (
        "import sys; from aisrv.cli.main import main\n"
        "for words in (['evaluate'], ['fleet', 'up'], ['fleet', 'plan']):\n"
        "    main([*words, '--help'], standalone_mode=False)\n"
        f"    print('loaded', sorted({unwanted} & set(sys.modules)))"
    )
    lines = run_process([sys.executable, "-c", script], check=True).stdout.splitlines()
    assert [line for line in lines if line.startswith("loaded ")] == ["loaded []"] * 3


def test_a_program_runs_beside_a_device_without_what_the_device_does_not_have() -> None:
    unwanted = {
        "aisrv.board.toml_file",
        "aisrv.inference.placement",
        "aisrv.inference.process.isolation",
        "aisrv.inference.timings.estimation",
        "aisrv.inference.timings.published",
        "aisrv.model.arena_plan",
        "aisrv.monitor",
        "aisrv.model.relocatable",
        "aisrv.addons.kernels.relocatable",
        "aisrv.sensors.acquire",
        "flash_server.image",
        "flash_server.server",
        "aisrv.addons.jacdac.task",
        "phy.usb.taps",
        "pyseccomp",
    }
    script = (
        "import atexit, sys; from aisrv.cli.main import main; "
        f"atexit.register(lambda: print(sorted({unwanted} & set(sys.modules)))); main(['exec', '--', 'true'])"
    )
    assert run_process([sys.executable, "-c", script], check=True).stdout == "[]\n"


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    """All modules that `aisrv run` loads before anything is asked of it."""
    script = "import sys, aisrv.cli.run; print(*sys.modules)"
    return set(run_process([sys.executable, "-c", script], check=True).stdout.split())


def test_devices_without_a_graph_load_without_numpy_and_the_graphs(loaded: set[str]) -> None:
    unwanted = {"numpy", "aisrv.addons.graph.device", "aisrv.addons.graph.run", "importlib.metadata"}
    assert unwanted & loaded == set()


def test_devices_without_pins_load_the_options_of_pins_alone(loaded: set[str]) -> None:
    pins = {name for name in loaded if name.startswith("aisrv.addons.pins.")}
    assert pins == {"aisrv.addons.pins.addon", "aisrv.addons.pins.options"}


def test_a_server_has_what_runs_models_before_the_first_one_is_loaded(loaded: set[str]) -> None:
    wanted = {
        "aisrv.inference.placement",
        "aisrv.inference.process.isolation",
        "aisrv.inference.timings.estimation",
    }
    assert wanted - loaded == set()
