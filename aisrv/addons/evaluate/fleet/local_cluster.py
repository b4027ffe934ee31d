"""A scheduler and workers of Dask on this machine, for as long as this process lives."""

import asyncio
import logging
import signal
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from typing import Final, NamedTuple

from distributed import LocalCluster, Security

from aisrv.addons.evaluate.certificate import certificate_folder, certificate_path
from aisrv.addons.evaluate.cluster import ClusterError
from aisrv.values.heeded_signals import heeded
from aisrv.values.whole_file import write_whole

LOOPBACK: Final = "127.0.0.1"
NOT_STARTED: Final = 1
"""Exit code where the cluster does not start."""


class Place(NamedTuple):
    """Where a cluster is reached."""

    scheduler: str
    """As tls://127.0.0.1:8786."""
    dashboard: str | None
    """Its page; None without the package bokeh."""


async def serve_cluster(
    workers: int, port: int, dashboard_port: int, on_ready: Callable[[Place], None]
) -> signal.Signals:
    """Run a cluster of as many workers until SIGINT or SIGTERM, which is returned; ClusterError.

    Ports on 127.0.0.1 of 0 are any that are free. The processes end with this one, however it ends: each
    worker has a pipe to it. A worker that dies is started again. Who connects must have the certificate that
    is made here, as other users of the machine do not.
    """
    for name in ("distributed", "bokeh"):
        logging.getLogger(name).setLevel(logging.CRITICAL)
    # Where the dashboard's port is taken Dask takes another: the ready line says which.
    warnings.filterwarnings("ignore", "Port .* is already in use", UserWarning)
    ended: asyncio.Future[signal.Signals] = asyncio.get_running_loop().create_future()

    def end(number: signal.Signals) -> None:
        if not ended.done():
            ended.set_result(number)

    for each in heeded(signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(each, end, each)
    has_dashboard = find_spec("bokeh") is not None
    security = Security.temporary()
    with certificate_folder() as folder:
        try:
            cluster = await LocalCluster(
                n_workers=workers,
                threads_per_worker=1,
                processes=True,
                host=LOOPBACK,
                scheduler_port=port,
                dashboard_address=f"{LOOPBACK}:{dashboard_port}" if has_dashboard else None,
                memory_limit=0,  # engines have limits of their own
                preload=["aisrv.addons.evaluate.fleet.own_session"],
                asynchronous=True,
                silence_logs=logging.CRITICAL,
                security=security,
            )
        except (OSError, RuntimeError) as error:
            raise ClusterError(f"{LOOPBACK}:{port}: {_reason(error)}", NOT_STARTED) from None
        async with cluster:
            address: str = cluster.scheduler_address
            own = security.get_tls_config_for_role("client")
            path = certificate_path(folder, int(address.rpartition(":")[2]))
            write_whole(path, [own["cert"].encode(), own["key"].encode()])
            on_ready(Place(address, cluster.dashboard_link if has_dashboard else None))
            return await ended


def _reason(error: BaseException) -> str:
    """Return what the operating system said, where that is the cause; Dask wraps it."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error).strip().partition("\n")[0]
