"""Make the pictures of the manual: `python -m docs.generate.pictures [NAME...]`, or `make pictures`."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from docs.generate.pictures.terminal import terminal_picture
from docs.generate.pictures.web_page import page_picture

ROOT: Final = Path(__file__).parents[3]
IMAGES: Final = ROOT / "docs/guides/images"
ENVIRONMENT: Final = {
    "HOME": "/tmp",  # noqa: S108 - so that no configuration of the user's shows
    "LC_ALL": "C.UTF-8",
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
}

Make = Callable[[Path], str | bytes]
"""Makes a picture in a folder with the files of `aisrv demo --files`; returns its file."""


def terminal(*command: str, columns: int = 80, until: str | None = None, last: str | None = None) -> Make:
    """Make a picture of what a command shows, as `terminal_picture` does."""
    return lambda folder: terminal_picture(
        command, folder, ENVIRONMENT, columns=columns, until=until, last=last
    )


def file_of(name: str, *command: str) -> Make:
    """Make a picture that a command writes to a file of this name."""

    def make(folder: Path) -> bytes:
        _run(folder, *command)
        return (folder / name).read_bytes()

    return make


def page(name: str, width: int, height: int, *command: str) -> Make:
    """Make a screenshot of the page that a command writes to a file of this name."""

    def make(folder: Path) -> bytes:
        _run(folder, *command)
        window = f"--window-size={width},{height}"
        options = ("--headless", "--no-sandbox", "--hide-scrollbars", "--disable-gpu", window)
        _run(folder, "chromium", *options, "--screenshot=page.png", (folder / name).as_uri())
        _reduce_colors(folder / "page.png")
        return (folder / "page.png").read_bytes()

    return make


def web_page(scheme: str, fault: str | None = None) -> Make:
    """Make a picture of the page of a running device; see `page_picture`."""

    def make(folder: Path) -> bytes:
        path = folder / "page.png"
        path.write_bytes(page_picture(folder, ENVIRONMENT, scheme=scheme, fault=fault))
        _reduce_colors(path, 128)
        return path.read_bytes()

    return make


def trace_of_director(*command: str) -> Make:
    """Make a picture of what a command shows of `director.pftrace`, a trace of the director's board."""

    def make(folder: Path) -> bytes | str:
        board = ROOT / "examples/director.toml"
        words = ("aisrv", "run", "--board", str(board), "--port", "0", "--trace", "director.pftrace")
        with subprocess.Popen(
            words, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None  # noqa: S101 - it is a pipe
            while "9018" not in (line := running.stdout.readline()) and line:
                pass  # the digits on the last strip
            running.send_signal(signal.SIGINT)
        return terminal_picture(command, folder, ENVIRONMENT, columns=80)

    return make


def trace_of_camera(*command: str) -> Make:
    """Make a picture of what a command shows of `camera.pftrace`, a trace of the camera's board."""

    def make(folder: Path) -> bytes | str:
        board = ("--board", "camera", "--model", "digits.tflite", "--device-time")
        _run(folder, "aisrv", "exec", *board, "--trace", "camera.pftrace", "--", "sleep", "1")
        return terminal_picture(command, folder, ENVIRONMENT, columns=80)

    return make


PICTURES: Final[dict[str, Make]] = {
    "demo.svg": terminal("aisrv", "demo", "--count", "2", last="2 of 2 right"),
    "board.svg": terminal("aisrv", "boards", "two-engines"),
    "trace.svg": trace_of_director(
        "aisrv", "trace", "summary", "director.pftrace", "--command", "START_INFER"
    ),
    "trace-camera.svg": trace_of_camera(
        "aisrv", "trace", "summary", "camera.pftrace", "--command", "GET_OUTPUT_TENSOR"
    ),
    "status.svg": terminal(
        *("aisrv", "run", "--board", "camera", "--model", "digits.tflite", "--status"),
        columns=88,
        until=r"9,424 B +[1-9]\d ",
    ),
    "arena.svg": file_of("arena.svg", "aisrv", "model", "plan", "digits.tflite", "--svg", "arena.svg"),
    "model.svg": file_of("model.svg", "aisrv", "model", "show", "digits.tflite", "--svg", "model.svg"),
    "report.png": page(
        "report.html", 1000, 1190, "aisrv", "profile", "digits.tflite", "--html", "report.html"
    ),
    "web.png": web_page("dark"),
    "web-light.png": web_page("light", "stall:in:1000"),
}
"""The pictures by the names of their files in `docs/guides/images`."""


def main(names: list[str]) -> None:
    """Make pictures, all without names."""
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _run(folder, "aisrv", "demo", "--files", ".")
        for name in names or PICTURES:
            data = PICTURES[name](folder)
            path = IMAGES / name
            path.write_bytes(data.encode() if isinstance(data, str) else data)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


def _run(folder: Path, *command: str) -> None:
    subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )


def _reduce_colors(path: Path, colors: int = 64) -> None:
    """Make a PNG file small: a palette is enough for charts and text."""
    from PIL import Image

    with Image.open(path) as image:
        small = image.convert("RGB").quantize(colors)
    small.save(path, optimize=True)


if __name__ == "__main__":
    main(sys.argv[1:])
