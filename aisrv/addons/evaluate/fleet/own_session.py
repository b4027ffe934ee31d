"""What the workers of a local cluster load first: a session of their own, so that Ctrl-C is for others."""

import os

import aisrv.addons.evaluate.fleet.tasks  # noqa: F401 - so that the first task need not wait for it


def dask_setup(_worker: object) -> None:
    """Leave the terminal's session; Dask calls it in each worker that starts."""
    os.setsid()
