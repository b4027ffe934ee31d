"""`.ci/release` in a repository of its own, whose wheels and manual are made by stand-ins."""

import importlib.util
import os
import re
import shutil
import sys
from pathlib import Path
from subprocess import CompletedProcess

import pytest

from tests.support.paths import ROOT
from tests.support.programs import missing, run_process

RELEASE = ROOT / ".ci/release"
if not RELEASE.exists():
    pytest.skip("the tree has no .ci: only a checkout has", allow_module_level=True)
for name in ("git", "make"):
    if shutil.which(name) is None:
        missing(f"{name} is not installed")
if importlib.util.find_spec("towncrier") is None:
    missing("towncrier is not installed")

BEGIN = "# Changelog\n\n<!-- towncrier release notes start -->\n\n"
FILES = {
    ".ci/wheels": '#!/bin/sh\nmkdir -p "$1" && echo "wheels in $1"\n',
    "Makefile": ".PHONY: docs\ndocs:\n\t@sh -c 'echo the manual'\n",
    ".gitignore": "build/\n.venv/\n",
    ".venv/bin/towncrier": f'#!/bin/sh\nexec "{sys.executable}" -m towncrier "$@"\n',
    "docs/changes/README.md": "How to write them.\n",
    "pyproject.toml": (ROOT / "pyproject.toml").read_text(encoding="utf-8"),
    "CHANGELOG.md": f"{BEGIN}## 1.2.3 (2026-11-30)\n\n- All.\n\n## 1.2.2 (2026-11-01)\n",
    "aisrv/values/version.py": '__version__ = "1.2.3"\n',
}
ENVIRONMENT = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    **{f"GIT_{who}_{what}": "aisrv" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
}


def git(folder: Path, *words: str) -> str:
    return run_process(["git", *words], cwd=folder, env=os.environ | ENVIRONMENT, check=True).stdout


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with all that a release wants, committed, on a machine without containers."""
    folder = tmp_path / "repository"
    for name, text in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    shutil.copy(RELEASE, folder / ".ci/release")
    for name in (".ci/wheels", ".venv/bin/towncrier"):
        (folder / name).chmod(0o755)
    git(folder, "init", "--quiet")
    commit(folder)
    return folder


def commit(folder: Path) -> None:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "--message", "All")


def change(folder: Path, name: str, old: str, new: str) -> None:
    path = folder / name
    path.write_text(path.read_text().replace(old, new))
    commit(folder)


def write_changes(folder: Path) -> None:
    """Put two texts in the place of the section of 1.2.3."""
    (folder / "docs/changes/+lamp.feature.md").write_text("A lamp blinks.\n")
    (folder / "docs/changes/+out.bugfix.md").write_text("It goes out.\n")
    change(folder, "CHANGELOG.md", "## 1.2.3 (2026-11-30)\n\n- All.\n\n", "")


def release(folder: Path, *arguments: str) -> CompletedProcess[str]:
    """Run the release where only the programs that it always needs are found."""
    programs = folder.parent / "programs"
    programs.mkdir(exist_ok=True)
    for name in ("bash", "dirname", "git", "grep", "make", "mkdir", "sed", "sh"):
        found = shutil.which(name)
        assert found is not None
        if not (programs / name).exists():
            (programs / name).symlink_to(found)
    environment = {**ENVIRONMENT, "PATH": str(programs), "HOME": str(folder.parent)}
    return run_process([programs / "bash", folder / ".ci/release", *arguments], env=environment)


def refusal(folder: Path, *arguments: str) -> str:
    """Return why there is no release; nothing was built or tagged."""
    done = release(folder, *arguments)
    assert (done.returncode, done.stdout) == (1, "")
    assert not (folder / "build").exists()
    return done.stderr


def test_what_is_committed_is_built_and_tagged(repository: Path) -> None:
    done = release(repository, "1.2.3")
    assert (done.returncode, done.stderr) == (0, "no container: neither podman nor docker is installed\n")
    lines = [line for line in done.stdout.splitlines() if not line.startswith("make")]
    assert lines == [
        "wheels in build/dist",
        "the manual",
        "aisrv 1.2.3 is in build/dist, its manual in build/site; the commit has the tag v1.2.3. To publish:",
        "    twine upload build/dist/*",
        "    git push origin v1.2.3",
    ]
    assert git(repository, "cat-file", "-t", "v1.2.3") == "tag\n"
    assert git(repository, "rev-parse", "v1.2.3^{commit}") == git(repository, "rev-parse", "HEAD")


@pytest.mark.parametrize("arguments", [(), ("",), ("1.2",), ("v1.2.3",), ("1.2.3 --force",)])
def test_a_version_is_three_numbers(arguments: tuple[str, ...], repository: Path) -> None:
    assert refusal(repository, *arguments) == "which version? make release VERSION=1.2.3\n"


def test_files_that_are_not_committed_are_named(repository: Path) -> None:
    (repository / "new").touch()
    told = refusal(repository, "1.2.3")
    assert told == "?? new\ncommit these files first: a release is what is committed\n"


def test_a_version_is_released_once(repository: Path) -> None:
    git(repository, "tag", "v1.2.3")
    assert refusal(repository, "1.2.3") == "the tag v1.2.3 is there already\n"


def test_the_package_has_the_version(repository: Path) -> None:
    change(repository, "aisrv/values/version.py", "1.2.3", "1.2.2")
    assert refusal(repository, "1.2.3") == 'aisrv/values/version.py has another version: "1.2.2"\n'


def test_a_version_has_a_section_or_texts_for_one(repository: Path) -> None:
    change(repository, "CHANGELOG.md", "## 1.2.3 (2026-11-30)\n\n- All.\n\n", "")
    told = refusal(repository, "1.2.3")
    assert told == "docs/changes has no texts, and CHANGELOG.md begins with '## 1.2.2 (2026-11-01)'\n"


def test_texts_become_the_section_in_a_commit_that_is_tagged(repository: Path) -> None:
    write_changes(repository)
    done = release(repository, "1.2.3")
    assert done.returncode == 0, done.stderr
    assert git(repository, "status", "--porcelain") == ""
    assert git(repository, "log", "--format=%s", "-2") == "Release 1.2.3\nAll\n"
    assert git(repository, "rev-parse", "v1.2.3^{commit}") == git(repository, "rev-parse", "HEAD")
    assert [each.name for each in (repository / "docs/changes").iterdir()] == ["README.md"]
    changelog = (repository / "CHANGELOG.md").read_text()
    assert re.sub(r"\d{4}-\d\d-\d\d", "DATE", changelog) == (
        f"{BEGIN}## 1.2.3 (DATE)\n\n### New\n\n- A lamp blinks.\n\n"
        "### Mended\n\n- It goes out.\n\n\n## 1.2.2 (DATE)\n"
    )


def test_a_release_that_failed_goes_on_with_its_section(repository: Path) -> None:
    write_changes(repository)
    change(repository, ".ci/wheels", "mkdir", "false #")
    assert release(repository, "1.2.3").returncode == 1
    change(repository, ".ci/wheels", "false #", "mkdir")
    assert release(repository, "1.2.3").returncode == 0
    assert (repository / "CHANGELOG.md").read_text().count("## 1.2.3 (") == 1


def test_texts_for_a_version_that_has_its_section_are_no_release(repository: Path) -> None:
    (repository / "docs/changes/+late.misc.md").write_text("Too late.\n")
    commit(repository)
    told = refusal(repository, "1.2.3")
    assert told == (
        "CHANGELOG.md has a section of 1.2.3 already, and docs/changes has texts that are not in it\n"
    )


def test_no_tag_is_made_where_a_check_fails(repository: Path) -> None:
    change(repository, ".ci/wheels", "mkdir", "false #")
    assert release(repository, "1.2.3").returncode == 1
    assert git(repository, "tag") == ""
