"""Parts: the same bytes whoever writes them, read again, and none that is damaged."""

import io
import json
import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from aisrv.addons.evaluate.folder.hashes import write_hash
from aisrv.addons.evaluate.folder.part_format import PartError, PartFormat, PartRows
from aisrv.addons.evaluate.folder.parts import Parts, describe_refused
from aisrv.addons.evaluate.folder.sealed import seal, unseal
from aisrv.addons.evaluate.running.answers import Answers
from host_tools.tensors.tensor_spec import TensorSpec
from tests.support.amounts import in_ci

OUTPUTS = (TensorSpec((1, 3), "int8", 1 / 256, -128), TensorSpec((1, 2), "float32"))
FORM = PartFormat(OUTPUTS, "classes", has_files=True)
LABELS = np.arange(10, dtype=np.int32) % 3


def answers() -> Answers:
    found = Answers(10, 11, 4, files=True)
    generator = np.random.default_rng(1)
    found.put(0, generator.integers(0, 100, (10, 11), np.uint8), (5, 6))
    found.content[:] = generator.integers(0, 256, (10, 8), np.uint8)
    found.fail(6, "no picture")
    return found


def part_rows(found: Answers, shard: int) -> PartRows:
    first, end = found.bounds(shard)
    return PartRows(first, found.part(shard), LABELS[first:end])


def parts_of(folder: Path) -> Parts:
    parts = Parts(folder, FORM)
    parts.make_folders()
    return parts


def write(folder: Path, found: Answers) -> Parts:
    parts = parts_of(folder)
    for shard in range(found.shards):
        parts.write(shard, part_rows(found, shard), "worker")
    return parts


def read(parts: Parts) -> tuple[Answers, list[str]]:
    """Read all parts; return what is there, and what is wrong with the others."""
    again = Answers(10, 11, 4, files=True)
    return again, list(map(str, parts.read(again, LABELS)))


def test_parts_of_equal_answers_are_equal_to_the_byte(tmp_path: Path) -> None:
    first = answers()
    second = answers()
    second.times[0].add((99,), 3)  # which is in no part
    for name, found in (("one", first), ("two", second)):
        write(tmp_path / name, found)
    one, two = (Parts(tmp_path / name, FORM).listed(first) for name in ("one", "two"))
    assert one == two
    assert [each.rows for each in one] == [4, 4, 2]


def test_answers_come_back_from_their_parts(tmp_path: Path) -> None:
    found = answers()
    again, refused = read(write(tmp_path, found))
    assert refused == []
    assert np.array_equal(again.outputs, found.outputs)
    assert np.array_equal(again.content, found.content)
    assert again.failed == {6: "no picture"}
    assert again.missing() == []
    assert again.host_times().values() == found.host_times().values()


def test_times_say_who_how_long_and_how_often(tmp_path: Path) -> None:
    found = answers()
    found.begin_again(5)
    parts_of(tmp_path).write(1, part_rows(found, 1), "worker", 1.23456)
    times = json.loads((tmp_path / "times" / "000001.json").read_text())
    assert (times["worker"], times["seconds"], times["attempts"]) == ("worker", 1.235, 2)


def test_a_part_that_is_done_is_not_written_again(tmp_path: Path) -> None:
    parts = write(tmp_path, answers())
    parts.write(1, part_rows(answers(), 1), "another")
    assert json.loads((tmp_path / "times" / "000001.json").read_text())["worker"] == "worker"


def test_what_killed_writers_left_is_removed_at_the_end(tmp_path: Path) -> None:
    parts = write(tmp_path, answers())
    left = [tmp_path / folder / ".000001.parquet.0123abcd.part" for folder in ("parts", "times")]
    for each in left:
        each.write_bytes(b"")
    write(tmp_path, answers())
    assert all(each.exists() for each in left)
    parts.remove_left()
    assert not any(each.exists() for each in left)
    assert len(list((tmp_path / "parts").iterdir())) == 6


def test_columns_have_the_outputs_own_types(tmp_path: Path) -> None:
    write(tmp_path, answers())
    table = pq.read_table(tmp_path / "parts" / "000001.parquet")
    types = {name: str(table.schema.field(name).type) for name in table.column_names}
    assert types == {
        "index": "int64",
        "label": "int32",
        "predicted": "int32",
        "failed": "string",
        "content": "fixed_size_binary[8]",
        "output0": "fixed_size_list<element: int8>[3]",
        "output1": "fixed_size_list<element: float>[2]",
    }
    assert table["index"].to_pylist() == [4, 5, 6, 7]


# Damage.


def test_each_flipped_byte_of_a_part_and_what_is_beside_it_is_noticed(tmp_path: Path) -> None:
    parts = write(tmp_path, answers())
    dice = random.Random(7)
    for name, kept in (("parts/000001.parquet", 6), ("parts/000001.sha256", 6), ("times/000001.json", 6)):
        path = tmp_path / name
        content, digest = path.read_bytes(), (tmp_path / "parts" / "000001.sha256").read_bytes()
        for place in dice.sample(range(len(content)), in_ci(len(content), every_day=40)):
            flipped = bytearray(content)
            flipped[place] ^= 1 << dice.randrange(8)
            path.write_bytes(flipped)
            again, refused = read(parts)
            assert again.missing() == [(4, 8)], (name, place)
            assert len(refused) == 1
            path.write_bytes(content)
            (tmp_path / "parts" / "000001.sha256").write_bytes(digest)
        assert int(read(parts)[0].done.sum()) == 4 + kept


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda path: path.with_suffix(".sha256").unlink(), "has no hash"),  # as of older versions
        (lambda path: path.write_bytes(b"PAR1"), "is not as it was written"),
        (
            lambda path: (path.parent.parent / "times" / "000001.json").unlink(),
            "times/000001.json: No such file or directory",
        ),
        (
            lambda path: (path.parent.parent / "times" / "000001.json").write_bytes(
                seal({"histogram": {"99999": 1}})
            ),
            "times/000001.json is not as it was written",
        ),
    ],
)
def test_a_damaged_part_loses_its_hash_and_is_made_again(
    damage: Callable[[Path], None], words: str, tmp_path: Path
) -> None:
    parts = write(tmp_path, answers())
    path = parts.path(1)
    content = path.read_bytes()
    damage(path)
    again, (refused,) = read(parts)
    assert words in refused
    assert again.missing() == [(4, 8)]
    assert not parts.is_done(1)
    write(tmp_path, answers())
    assert path.read_bytes() == content
    assert read(parts)[1] == []


def change(path: Path, made: Callable[[pa.Table], pa.Table]) -> None:
    """Change a part, and give it the hash of what it is."""
    content = io.BytesIO()
    pq.write_table(made(pq.read_table(path)), content)
    path.write_bytes(content.getvalue())
    write_hash(path, content.getvalue())


def replaced(table: pa.Table, name: str, values: list[object]) -> pa.Table:
    place = table.column_names.index(name)
    return table.set_column(place, name, pa.array(values, table.schema.field(name).type))


@pytest.mark.parametrize(
    ("made", "words"),
    [
        (lambda table: replaced(table, "label", [0, 0, 0, 0]), "its labels are not those of the data"),
        (
            lambda table: replaced(table, "predicted", [1, 1, 1, 1]),
            "its classes are not those that its outputs",
        ),
        (
            lambda table: replaced(table, "output0", [[0, 0, 1]] * 4),
            "its classes are not those that its outputs say",
        ),
        (lambda table: replaced(table, "index", [0, 1, 2, 3]), "not the examples 4 to 7"),
        (lambda table: replaced(table, "index", [4, 5, 6, None]), "the column index has gaps"),
        (
            lambda table: replaced(table, "output1", [[1, None], *[[1, 2]] * 3]),
            "the column output1 has gaps",
        ),
        (lambda table: table.drop_columns(["failed"]), "the column failed is missing, not string"),
        (lambda table: table.drop_columns(["output1"]), "the column output1 is missing"),
        (lambda table: table.append_column("more", pa.nulls(4)), "it has other columns"),
        (lambda table: table.slice(0, 3), "3 examples, not 4"),
        (
            lambda table: replaced(table, "output0", [[0, 0, 0]] * 4).rename_columns(["index"] * 7),
            "the column",
        ),
    ],
)
def test_a_part_of_something_else_is_made_again(
    made: Callable[[pa.Table], pa.Table], words: str, tmp_path: Path
) -> None:
    parts = write(tmp_path, answers())
    change(parts.path(1), made)
    again, (refused,) = read(parts)
    assert refused.startswith(f"{parts.path(1)}: {words}")
    assert again.missing() == [(4, 8)]


def test_no_table_with_a_hash_ends_in_a_traceback() -> None:
    content = FORM.to_bytes(part_rows(answers(), 1))
    dice = random.Random(3)
    for place in dice.sample(range(len(content)), in_ci(len(content), every_day=150)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << dice.randrange(8)
        with suppress(PartError):
            assert len(FORM.from_bytes(bytes(flipped), 4, 8).answers) == 4


def test_that_files_are_made_again_is_said_in_one_line() -> None:
    errors = [PartError("a has no hash"), PartError("b has no hash"), PartError("c has no hash")]
    assert describe_refused(errors[:1]) == "a has no hash: it is made again"
    assert describe_refused(errors) == "a has no hash, and 2 more: they are made again"


# Writers that are killed.


def write_until_killed(folder: Path, replacements: int) -> NoReturn:
    """Write parts, until so many files have got their names, and be killed at the next."""
    real = Path.replace

    def replace(self: Path, target: Path) -> Path:
        nonlocal replacements
        if not replacements:
            os.kill(os.getpid(), signal.SIGKILL)
        replacements -= 1
        return real(self, target)

    Path.replace = replace  # type: ignore[method-assign, assignment]
    write(folder, answers())
    os._exit(0)


@pytest.mark.parametrize("replacements", range(9))
def test_a_writer_that_is_killed_at_any_write_leaves_what_is_done(replacements: int, tmp_path: Path) -> None:
    child = os.fork()
    if not child:
        write_until_killed(tmp_path, replacements)
    _, status = os.waitpid(child, 0)
    assert os.WTERMSIG(status) == signal.SIGKILL
    parts = parts_of(tmp_path)
    again, refused = read(parts)
    shards, files = divmod(replacements, 3)  # a part, its times, its hash
    assert again.missing() == [(4 * shards, 10)]
    assert refused == ([f"{parts.path(shards)} has no hash"] if files else [])
    write(tmp_path, answers())
    assert read(parts)[0].missing() == []


def test_sealed_values_come_back_and_nothing_else() -> None:
    values = {"b": [1, 2.5, None], "a": "\u00e9"}
    assert unseal(seal(values)) == values
