"""Installation of extras: aisrv once more, from where it came, with the extra, whose versions go together."""

import sys
from pathlib import Path
from typing import Any


def install_command(extra: str) -> str:
    """Return the command that installs an extra.

    No index has aisrv. So the command names what pip has installed it from, or, where there is no record of
    that, the current folder, which must be a checkout then.
    """
    # xmos-ai-tools asks for numpy 1, which the engine does not use, and Python 3.12 has no wheel of.
    if extra == "xcore" and sys.version_info >= (3, 12):
        return "pip install --no-deps xmos-ai-tools"
    return f"pip install {_requirement(_direct_url(), extra)}"


def import_failure(what: str, error: ImportError, extra: str) -> str:
    """Return what to tell of a package that does not import: its own words, and the command that helps.

    `what` is the need for it, such as "reading pictures needs Pillow".
    """
    return f"{what} ({' '.join(str(error).split())}): {install_command(extra)}"


def _direct_url() -> dict[str, Any] | None:
    """Return pip's record of what it has installed aisrv from, as PEP 610 has it; None for none."""
    import json
    from importlib.metadata import PackageNotFoundError, distribution

    try:
        text = distribution("aisrv").read_text("direct_url.json")
    except PackageNotFoundError:  # it runs in a checkout, uninstalled
        return None
    record: dict[str, Any] | None = json.loads(text) if text else None
    return record


def _requirement(record: dict[str, Any] | None, extra: str) -> str:
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    if record is None:
        return f'".[{extra}]"'
    url: str = record["url"]
    if version := record.get("vcs_info"):
        return f'"aisrv[{extra}] @ {version["vcs"]}+{url}@{version["commit_id"]}"'
    if not url.startswith("file:"):
        return f'"aisrv[{extra}] @ {url}"'
    path = Path(url2pathname(urlsplit(url).path))
    editable = "-e " if record.get("dir_info", {}).get("editable") else ""
    return f'{editable}"{"." if path == Path.cwd() else path}[{extra}]"'
