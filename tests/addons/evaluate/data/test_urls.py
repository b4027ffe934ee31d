"""Data that lie elsewhere: the same data sets, by way of fsspec from an archive, a memory and a server."""

import functools
import gzip
import http.server
import io
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from aisrv.addons.evaluate.data.data_set import DataSet
from aisrv.addons.evaluate.data.opening import open_data
from aisrv.addons.evaluate.data.urls import Url, beginning_of, list_folder, read_url, size_of, source_of
from aisrv.addons.evaluate.errors import DataError, ExtraError

fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed: it comes with the extra fleet")

FILES = {
    "set/b/1.npy": b"one",
    "set/a/2.npy": b"two!",
    "set/a/deep/3.npy": b"",
    "set/.git/4.npy": b"hidden",
    "set/a/.5.npy": b"hidden",
    "set/a/notes.txt": b"no example",
    "set2/a/9.npy": b"of another folder",
    "table.csv": b"path,label\nset/b/1.npy,b\nset/a/2.npy,a\n",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, data in FILES.items():
        path = tmp_path / "files" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return tmp_path / "files"


@pytest.fixture(params=["zip", "memory", "http"])
def root(request: pytest.FixtureRequest, folder: Path) -> Iterator[tuple[str, str]]:
    """Provide what stands before and after the name of each file in its address."""
    match request.param:
        case "zip":
            archive = folder.parent / "all.zip"
            with zipfile.ZipFile(archive, "w") as file:
                for name, data in FILES.items():
                    file.writestr(name, data)
            yield "zip://", f"::{archive}"
        case "memory":
            memory = fsspec.filesystem("memory")
            for name, data in FILES.items():
                memory.pipe(f"/{folder.parent.name}/{name}", data)
            yield f"memory://{folder.parent.name}/", ""
            memory.rm(f"/{folder.parent.name}", recursive=True)
        case _:
            pytest.importorskip("aiohttp", reason="aiohttp is not installed: it comes with the extra fleet")
            with served(folder) as address:
                yield address, ""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Print nothing."""


class served:  # noqa: N801 - used as a function
    """A web server of a folder."""

    def __init__(self, folder: Path) -> None:
        handler = functools.partial(Quiet, directory=str(folder))
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever)

    def __enter__(self) -> str:
        self._thread.start()
        return f"http://127.0.0.1:{self._server.server_port}/"

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def same_but_for_places(found: DataSet, local: DataSet) -> None:
    assert list(found.names) == list(local.names)
    assert list(found.labels) == list(local.labels)
    assert found.kind == local.kind
    assert found.listing_sha256 == local.listing_sha256


def test_a_folder_is_the_same_data_set_wherever_it_lies(root: tuple[str, str], folder: Path) -> None:
    found, _ = open_data(f"{root[0]}set/{root[1]}")
    same_but_for_places(found, open_data(str(folder / "set"))[0])
    assert list(found.names) == ["a/2.npy", "a/deep/3.npy", "b/1.npy"]
    assert [read_url(each) for each in found.files if isinstance(each, Url)] == [b"two!", b"", b"one"]


def test_a_table_names_files_beside_it(root: tuple[str, str], folder: Path) -> None:
    found, _ = open_data(f"{root[0]}table.csv{root[1]}")
    same_but_for_places(found, open_data(str(folder / "table.csv"))[0])
    assert [read_url(each) for each in found.files if isinstance(each, Url)] == [b"one", b"two!"]


def test_the_size_and_beginning_of_a_file(root: tuple[str, str]) -> None:
    url = Url(f"{root[0]}set/a/2.npy{root[1]}")
    assert size_of(url) == 4
    assert beginning_of(url, 2) == b"tw"
    assert beginning_of(url, 5) == b"two!"


@pytest.mark.parametrize("largest", [0, 1, 3])
def test_a_file_that_is_too_large(root: tuple[str, str], largest: int) -> None:
    with pytest.raises(DataError, match=f"2.npy.*: it has more than {largest} bytes$"):
        read_url(Url(f"{root[0]}set/a/2.npy{root[1]}"), largest)
    assert read_url(Url(f"{root[0]}set/a/2.npy{root[1]}"), 4) == b"two!"


@pytest.mark.parametrize("name", ["missing", "missing/table.csv", "missing.npz"])
def test_what_is_not_there(root: tuple[str, str], name: str) -> None:
    with pytest.raises(DataError, match=name):
        open_data(f"{root[0]}{name}{root[1]}")


def test_arrays_are_read_into_memory(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.savez(content, x=np.arange(24, dtype=np.int8).reshape(6, 4), y=np.arange(6))
    (tmp_path / "a.npz").write_bytes(content.getvalue())
    fsspec.filesystem("memory").pipe("/arrays/a.npz", content.getvalue())
    found, local = open_data("memory://arrays/a.npz")[0], open_data(str(tmp_path / "a.npz"))[0]
    assert found.arrays[0].tolist() == local.arrays[0].tolist()
    assert found.listing_sha256 == local.listing_sha256
    assert found.mapped is None


def test_labels_lie_beside_images() -> None:
    memory = fsspec.filesystem("memory")
    images = b"\0\0\x08\x03" + (2).to_bytes(4) + (1).to_bytes(4) * 2 + b"\7\x09"
    memory.pipe("/idx/t-images-idx3-ubyte.gz", gzip.compress(images))
    memory.pipe("/idx/t-labels-idx1-ubyte.gz", gzip.compress(b"\0\0\x08\x01" + (2).to_bytes(4) + b"\1\0"))
    found, _ = open_data("memory://idx/t-images-idx3-ubyte.gz")
    assert found.arrays[0].ravel().tolist() == [7, 9]
    assert list(found.labels) == [1, 0]


def test_an_address_of_this_machine_is_a_path(folder: Path) -> None:
    assert source_of(f"file://{folder}/set") == folder / "set"
    assert open_data(f"file://{folder}/set")[0].uri == str(folder / "set")


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("s3://key:secret@bucket/set", r"^s3://bucket/set: leave user and password out"),
        ("simplecache::s3://bucket/set", r"leave out what stands before the first ::$"),
        ("nothing://bucket/set", r"^nothing://bucket/set: "),
        ("http://127.0.0.1:1/set", r"^http://127.0.0.1:1/set: "),
    ],
)
def test_addresses_that_are_refused(address: str, reason: str) -> None:
    with pytest.raises((DataError, ExtraError), match=reason) as caught:
        open_data(address)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("name", ["file:///etc/passwd", "memory://other/1.npy", "zip://a::/b.zip"])
def test_a_table_elsewhere_names_nothing_reached_in_another_way(name: str) -> None:
    memory = fsspec.filesystem("memory")
    memory.pipe("/other/1.npy", b"one")
    memory.pipe("/tables/t.csv", f"path,label\n{name},a\n".encode())
    if name.startswith("memory"):
        assert open_data("memory://tables/t.csv")[0].files == [Url("memory://other/1.npy")]
        return
    with pytest.raises(DataError, match=r"is not reached as the table is$"):
        open_data("memory://tables/t.csv")


@pytest.mark.parametrize(
    ("address", "kind", "suffix", "sibling"),
    [
        ("s3://bucket/a/1.PNG", "s3", ".PNG", "s3://bucket/a/x"),
        ("zip://1.png::s3://bucket/a.zip", "zip::s3://bucket/a.zip", ".png", "zip://x::s3://bucket/a.zip"),
        ("https://host/a.csv", "https", ".csv", "https://host/x"),
    ],
)
def test_parts_of_an_address(address: str, kind: str, suffix: str, sibling: str) -> None:
    url = Url(address)
    assert (url.kind, url.suffix, url.with_name("x")) == (kind, suffix, sibling)


def test_a_folder_of_a_web_server_is_told_by_its_slash(folder: Path) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed: it comes with the extra fleet")
    with served(folder) as address, pytest.raises(DataError, match=r"on a web server ends in /$"):
        open_data(f"{address}set")


def test_a_list_of_a_folder_has_no_other_folder(root: tuple[str, str]) -> None:
    names = [name for name, _ in list_folder(Url(f"{root[0]}set{root[1]}"))]
    assert sorted(names) == sorted(each.removeprefix("set/") for each in FILES if each.startswith("set/"))
