"""Lists of examples that are files: each is looked up as it is found, within what a data set may take."""

import hashlib
from pathlib import Path

from aisrv.addons.evaluate.data.allowance import FILE_BYTES, Allowance
from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.urls import Url, size_of
from aisrv.addons.evaluate.errors import DataError
from aisrv.values.printable import printable, readable_name


class Listing:
    """The files of a data set with their labels, and the digest of that."""

    def __init__(self, path: Path | Url, kind: str, allowance: Allowance) -> None:
        """Begin an empty list; `kind` is the data set's form, `path` where the list comes from."""
        self._uri = readable_name(str(path))
        self._kind = kind
        self._allowance = allowance
        self._digest = hashlib.sha256(f"{kind}\n".encode())
        self._files: list[Path | Url] = []
        self._names: list[str] = []
        self._labels: list[str] = []

    def add(self, name: str, label: str, source: Path | Url) -> None:
        """Add the next example, by the name that it has in the list; DataError where it is not there."""
        self._allowance.take(FILE_BYTES + 3 * len(name) + len(label))
        try:
            size = size_of(source) if isinstance(source, Url) else source.stat().st_size
        except OSError as error:
            raise DataError(f"{printable(str(source))}: {error.strerror}") from None
        except ValueError:
            raise DataError(f"{printable(str(source))}: a file's name has no zero byte") from None
        self._digest.update(f"{name}\t{label}\t{size}\n".encode("utf-8", "surrogateescape"))
        self._files.append(source)
        self._names.append(readable_name(name))
        self._labels.append(readable_name(label))

    def data(self, hidden: int = 0) -> DataSet:
        """Return the data set; DataError where the list is empty. `hidden` files were left out."""
        if not self._files:
            raise DataError(f"{printable(self._uri)}: no examples")
        return DataSet(
            self._uri,
            self._kind,
            self._labels,
            self._digest.hexdigest(),
            files=self._files,
            names=self._names,
            hidden=hidden,
        )
