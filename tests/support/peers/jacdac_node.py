"""Jacdac's clients as the tests run them: scripts for Node beside the npm packages, and one for Python."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

from tests.support.peers.jacdac_peers import (
    INSTALL_SECONDS,
    NODE_FOLDER,
    PeerMissing,
    jacdac_python,
    node_environment,
    node_packages,
)
from tests.support.programs import missing

PYTHON_CLIENT = NODE_FOLDER.parent / "python" / "client.py"


class NodeClients:
    """The installed packages, with the scripts of the tests beside them."""

    def __init__(self) -> None:
        try:
            self.folder = node_packages()
            self.environment = node_environment()
        except PeerMissing as reason:
            missing(str(reason))
        for script in (*NODE_FOLDER.glob("*.js"), *NODE_FOLDER.glob("*.ts")):
            shutil.copy(script, self.folder)

    def run(self, script: str, *arguments: object, seconds: float = 60) -> Any:
        """Run a script and return what it prints, as JSON; a TypeScript one is bundled first."""
        if script.endswith(".ts"):
            script = self._bundle(script)
        node = shutil.which("node", path=self.environment["PATH"])
        assert node is not None
        command = [node, str(self.folder / script), *map(str, arguments)]
        return _last_line(command, seconds, self.folder, self.environment)

    def program(self, name: str) -> Path:
        """Return a program of the packages."""
        return self.folder / "node_modules" / ".bin" / name

    def _bundle(self, script: str) -> str:
        bundle = f"{Path(script).stem}.bundle.js"
        options = ["--bundle", "--platform=node", f"--outfile={bundle}", "--log-level=error"]
        subprocess.run(
            [str(self.program("esbuild")), script, *options],
            check=True,
            cwd=self.folder,
            env=self.environment,
            timeout=INSTALL_SECONDS,
        )
        return bundle


def run_python_client(websocket: str, seconds: float = 60) -> Any:
    """Run the client that uses jacdac-python, and return what it prints, as JSON."""
    try:
        python = jacdac_python()
    except PeerMissing as reason:
        missing(str(reason))
    return _last_line([str(python), str(PYTHON_CLIENT), websocket], seconds, PYTHON_CLIENT.parent)


def _last_line(
    command: list[str], seconds: float, folder: Path, environment: dict[str, str] | None = None
) -> Any:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=seconds, check=False, cwd=folder, env=environment
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1].removeprefix("answer "))
