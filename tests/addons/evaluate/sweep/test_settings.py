"""The file of a sweep: what it becomes, and what is wrong with it by file, line and key."""

from pathlib import Path

import pytest

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.sweep.settings import Sweep, load_sweep
from aisrv.board.catalog import BOARDS
from aisrv.protocol.memory_map import ModelMemory


def load(folder: Path, text: str) -> Sweep:
    path = folder / "sweep.toml"
    path.write_text(text)
    return load_sweep(path)


def test_a_file_with_all_tables(tmp_path: Path) -> None:
    sweep = load(
        tmp_path,
        """
        models = ["a.tflite", { path = "b.tflite", name = "b" }]
        boards = ["single", "no-flash"]
        link = "spi"
        [defaults]
        external = "1M"
        [[configurations]]
        [[configurations]]
        name = "plain"
        kernels = "reference"
        [axes]
        clock = [600, 700, 800]
        threads = [1, 5]
        arena = ["64K", 131072]
        model_memory = ["arena", "external"]
        [data]
        path = "test.npz"
        limit = 100
        [want]
        rate = 20
        accuracy = 0.9
        sure = false
        """,
    )
    assert [each.path for each in sweep.models] == [tmp_path / "a.tflite", tmp_path / "b.tflite"]
    assert list(sweep.boards) == ["single", "no-flash"]
    assert sweep.cells == 2 * 2 * 2 * 3 * 2 * 2 * 2
    assert len(set(sweep.variants)) == 48
    assert {each.memory for each in sweep.variants} == set(ModelMemory)
    assert sweep.data is not None
    assert (sweep.data.uri, sweep.data.limit) == (str(tmp_path / "test.npz"), 100)
    assert (sweep.want.rate, sweep.want.accuracy, sweep.want.sure) == (20, 0.9, False)
    assert (sweep.stop.cells, sweep.stop.minutes) == (10_000, 60)


def test_what_is_left_out(tmp_path: Path) -> None:
    sweep = load(tmp_path, 'models = ["a.tflite"]')
    assert set(sweep.boards) == set(BOARDS)
    assert sweep.cells == len(BOARDS)
    assert sweep.data is None


def test_the_path_of_a_board_counts_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text("[[engines]]\narena = 65536\n")
    sweep = load(tmp_path, 'models = ["a.tflite"]\nboards = ["own.toml"]')
    assert sweep.boards["own.toml"].engines[0].arena_bytes == 65536


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("boards = ['single']", "no models: name them"),
        ("\n\nboard = ['single']", ":4: board: 'board' is not known here; did you mean boards?"),
        ("boards = ['camera',\n'singel']", ":3: boards[1]: 'singel' is not one of 'app_aisrv', "),
        ("boards = ['singel']", "; did you mean single?"),
        ("[axes]\nclok = [600]", ":3: axes.clok: 'clok' is not known here; did you mean clock?"),
        ("[axes]\nclock = 600", ":3: axes.clock: must be an array of MHz, not 600"),
        ("[axes]\nclock = [0]", ":3: axes.clock[0]: must be a number above 0, at most 1000000, not 0"),
        ("[axes]\nthreads = [1, 6]", ":3: axes.threads[1]: must be a whole number from 1 to 5, not 6"),
        ("[axes]\narena = ['4X']", ":3: axes.arena[0]: '4X' is not a size"),
        ("[axes]\nmodel_memory = ['externl']", ":3: axes.model_memory[0]: 'externl' is not known here; did"),
        ("[data]\nlimit = 1", ":2: data: the key path is missing"),
        ("[data]\npath = 'x'\nengine = 'kernals'", ":4: data.engine: "),
        ("[want]\nacuracy = 0.9", ":3: want.acuracy: 'acuracy' is not known here; did you mean accuracy?"),
        ("[want]\naccuracy = 90", ":3: want.accuracy: must be a number above 0, at most 1, not 90"),
        ("[want]\naccuracy = 0.9", ":3: want.accuracy: an accuracy needs a table [data] with a path"),
        ("[stop]\ncells = 10", ":3: stop.cells: 11 cells, at most 10: name fewer, or raise cells"),
        (
            "[[configurations]]\nthread = 5",
            ":3: configurations[0].thread: 'thread' is not known here; did you",
        ),
        ("axes = 3", ":2: axes: must be a table with clock, threads, arena, model_memory, kernels, not 3"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(EvaluateError) as error:
        load(tmp_path, text if "models" in message else f"models = ['a.tflite']\n{text}")
    assert str(error.value).startswith(str(tmp_path / "sweep.toml"))
    assert message in str(error.value)
