"""Files as values of command-line options and arguments."""

from pathlib import Path
from typing import Final

import click

FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)
"""A file that is there."""
NEW_FILE: Final = click.Path(dir_okay=False, path_type=Path)
"""A file to write, which may be there."""
FOLDER: Final = click.Path(file_okay=False, path_type=Path)
"""A folder to write into, which may be there."""
