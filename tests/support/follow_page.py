"""Follows pages of the manual with what this Python has installed, without pytest.

    python -m tests.support.follow_page PAGE...

It ends with an error where a page shows something else than what a reader sees. A page whose programs are not
here is left out with the reason, and is an error where the variable CI is set.
"""

import os
import sys
import tempfile
from pathlib import Path

import trio

from tests.support.manual_page import Page, compare
from tests.support.page_session import follow


def main(names: list[str]) -> None:
    for name in names:
        page = Page.read(Path(name))
        if need := page.missing():
            if os.environ.get("CI"):
                sys.exit(f"{name} needs {need}")
            print(f"{name} left out: it needs {need}")
            continue
        with tempfile.TemporaryDirectory() as folder:
            trio.run(follow, page, Path(folder), compare)
        print(f"{name} shows what a reader sees")


if __name__ == "__main__":
    main(sys.argv[1:])
