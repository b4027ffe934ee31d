"""The folder of a sweep: the accuracies that were measured, so that a sweep goes on where it ended.

Each is a file named by the hash of all that it depends on: model, data, inputs, engine, versions, and the
accuracy that was wanted. So the same folder serves a sweep whose boards or axes have changed: nothing is
measured twice.
"""

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Final

import msgspec

from aisrv.evaluate.errors import EvaluateError
from aisrv.evaluate.folder.plan import make_plan, plan_bytes
from aisrv.evaluate.request import ENGINE, Loaded
from aisrv.evaluate.sweep.accuracy import Accuracy
from aisrv.protocol.engine_kind import EngineKind
from aisrv.values.regular_file import read_regular
from aisrv.values.whole_file import write_whole

ACCURACIES: Final = "accuracies"
_NAME_DIGITS: Final = 16


class SweepFolder:
    """A folder with the accuracies of models."""

    def __init__(self, folder: Path) -> None:
        """Make the folder; EvaluateError where there is another file, OSError."""
        if folder.exists() and not folder.is_dir():
            raise EvaluateError(f"{folder} is a file, not a folder")
        (folder / ACCURACIES).mkdir(parents=True, exist_ok=True)
        self._folder = folder

    def read(self, loaded: Loaded, engine: EngineKind, wanted: float | None) -> Accuracy | None:
        """Return the accuracy of a model on its data, on an engine; None where it was not measured.

        `wanted` is the accuracy that is asked for. EvaluateError for a file that is damaged.
        """
        path = self._path(loaded, engine, wanted)
        if not path.exists():
            return None
        try:
            return msgspec.json.decode(read_regular(path), type=Accuracy)
        except (OSError, msgspec.DecodeError) as error:
            raise EvaluateError(f"{path}: {error}; remove it, and it is measured again") from None

    def write(self, loaded: Loaded, engine: EngineKind, wanted: float | None, accuracy: Accuracy) -> None:
        """Keep an accuracy, with what it depends on; OSError."""
        data = json.dumps(asdict(accuracy), indent=1) + "\n"
        write_whole(self._path(loaded, engine, wanted), [data.encode()])

    def _path(self, loaded: Loaded, engine: EngineKind, wanted: float | None) -> Path:
        plan = make_plan(loaded.file, loaded.data, loaded.classes, loaded.settings, engine, ENGINE, "classes")
        digest = hashlib.sha256(plan_bytes(plan | {"wanted": wanted})).hexdigest()
        return self._folder / ACCURACIES / f"{loaded.file.stem}-{digest[:_NAME_DIGITS]}.json"
