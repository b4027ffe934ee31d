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


@pytest.mark.parametrize("module", LIGHT)
def test_module_loads_without_heavy_libraries(module: str) -> None:
    script = f"import sys, {module}; print(sorted(set({HEAVY}) & set(sys.modules)))"
    done = run_process([sys.executable, "-c", script], check=True)
    assert done.stdout == "[]\n"


@pytest.mark.parametrize("words", [["evaluate"], ["fleet", "up"], ["fleet", "plan"]])
def test_help_loads_no_library_of_clusters_or_tables(words: list[str]) -> None:
    unwanted = {"dask", "distributed", "numpy", "pyarrow", "trio"}
    script = (
        "import atexit, sys; from aisrv.cli.main import main; "
        f"atexit.register(lambda: print(sorted({unwanted} & set(sys.modules)))); main({[*words, '--help']})"
    )
    assert run_process([sys.executable, "-c", script], check=True).stdout.endswith("\n[]\n")


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
        "aisrv.relocatable",
        "aisrv.sensors.acquire",
        "flash_server.image",
        "flash_server.server",
        "phy.jacdac",
        "phy.usb.taps",
        "pyseccomp",
    }
    script = (
        "import atexit, sys; from aisrv.cli.main import main; "
        f"atexit.register(lambda: print(sorted({unwanted} & set(sys.modules)))); main(['exec', '--', 'true'])"
    )
    assert run_process([sys.executable, "-c", script], check=True).stdout == "[]\n"


def test_devices_without_a_graph_load_without_numpy_and_the_graphs() -> None:
    unwanted = {"numpy", "aisrv.graph", "aisrv.device.graph", "importlib.metadata"}
    script = f"import sys, aisrv.cli.run; print(sorted({unwanted} & set(sys.modules)))"
    assert run_process([sys.executable, "-c", script], check=True).stdout == "[]\n"


def test_a_server_has_what_runs_models_before_the_first_one_is_loaded() -> None:
    wanted = {
        "aisrv.inference.placement",
        "aisrv.inference.process.isolation",
        "aisrv.inference.timings.estimation",
    }
    script = f"import sys, aisrv.cli.run; print(sorted({wanted} - set(sys.modules)))"
    assert run_process([sys.executable, "-c", script], check=True).stdout == "[]\n"
