"""The folder of a sweep: the accuracies that were measured, so that a sweep goes on where it ended.

Each is a file named by the hash of all that it depends on: model, data, inputs, engine, versions, and the
accuracy that was wanted. So the same folder serves a sweep whose boards or axes have changed: nothing is
measured twice. Each has its hash beside it, and is measured again where the two do not fit.
"""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from aisrv.addons.evaluate.errors import EvaluateError
from aisrv.addons.evaluate.folder.hashes import (
    HashError,
    list_problems,
    read_hashed,
    read_list,
    sha256,
    write_hashed,
    write_list,
)
from aisrv.addons.evaluate.folder.plan import make_plan, plan_bytes
from aisrv.addons.evaluate.request import ENGINE, Loaded
from aisrv.addons.evaluate.sweep.accuracy import Accuracy
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.whole_file import remove_left

ACCURACIES: Final = "accuracies"
LISTED_FILES: Final = ("result.json", "report.html")
"""Files of a sweep that its list has."""
_NAME_DIGITS: Final = 16


class SweepFolder:
    """A folder with the accuracies of models."""

    def __init__(self, folder: Path) -> None:
        """Make the folder; EvaluateError where there is another file, OSError."""
        if folder.exists() and not folder.is_dir():
            raise EvaluateError(f"{folder} is a file, not a folder")
        (folder / ACCURACIES).mkdir(parents=True, exist_ok=True)
        remove_left(folder / ACCURACIES)
        self._folder = folder
        self.refused: Final[list[EvaluateError]] = []
        """What is wrong with files whose accuracies are measured again."""

    def read(self, loaded: Loaded, engine: EngineKind, wanted: float | None) -> Accuracy | None:
        """Return the accuracy of a model on its data, on an engine; None where it is to be measured.

        `wanted` is the accuracy that is asked for.
        """
        path = self._path(loaded, engine, wanted)
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(read_hashed(path), type=Accuracy)
        except HashError as error:
            self.refused.append(error)
        except (msgspec.DecodeError, RecursionError) as error:
            self.refused.append(EvaluateError(f"{path}: {error}"))
        return None

    def write(self, loaded: Loaded, engine: EngineKind, wanted: float | None, accuracy: Accuracy) -> None:
        """Keep an accuracy, with what it depends on; OSError."""
        data = json.dumps(asdict(accuracy), indent=1) + "\n"
        write_hashed(self._path(loaded, engine, wanted), data.encode())

    def write_list(self) -> None:
        """Write the list of all other files, which is the last of them; OSError."""
        write_list(self._folder, LISTED_FILES)

    def _path(self, loaded: Loaded, engine: EngineKind, wanted: float | None) -> Path:
        plan = make_plan(loaded.file, loaded.data, loaded.classes, loaded.settings, engine, ENGINE, "classes")
        digest = sha256(plan_bytes(plan | {"wanted": wanted}))
        return self._folder / ACCURACIES / f"{loaded.file.stem}-{digest[:_NAME_DIGITS]}.json"


def is_sweep(folder: Path) -> bool:
    """Return whether a folder is that of a sweep."""
    return (folder / ACCURACIES).is_dir()


def verify_sweep(folder: Path) -> list[str]:
    """Return what is wrong with a sweep's folder; nothing where all is as it should be. OSError."""
    problems = []
    for path in sorted((folder / ACCURACIES).glob("*.json")):
        try:
            read_hashed(path)
        except HashError as error:
            problems.append(str(error))
    try:
        return [*problems, *list_problems(folder, LISTED_FILES, read_list(folder)).values()]
    except HashError as error:
        return [*problems, str(error)]
