"""The cluster of a run: where its scheduler is, and how it is reached."""

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aisrv.addons.evaluate.certificate import find_certificate
from aisrv.addons.evaluate.errors import EvaluateError, ExtraError
from aisrv.values.extras import import_failure, install_command

if TYPE_CHECKING:
    from distributed import Security

TCP: Final = "tcp://"
TLS: Final = "tls://"
WAIT_SECONDS: Final = 600.0

_HERE: Final = re.compile(r"tls://(?:127\.0\.0\.1|localhost):(\d{1,5})", re.ASCII)
"""Where a scheduler of `aisrv fleet up` is."""

NO_CLUSTER: Final = 3
"""Exit code without a cluster, as that without a device."""


class NoCertificateError(ConnectionError):
    """No `aisrv fleet up` of this user listens at an address."""


class ClusterError(EvaluateError):
    """A cluster that is not there or cannot do the work; `exit_code` is that of the command."""

    def __init__(self, message: str, exit_code: int = NO_CLUSTER) -> None:
        """Keep the code."""
        super().__init__(message)
        self.exit_code: Final = exit_code


@dataclass(frozen=True, slots=True)
class ClusterSettings:
    """A scheduler, and the files that prove who is who with TLS; without any it is `aisrv fleet up`'s."""

    address: str
    """As tcp://HOST:PORT or tls://HOST:PORT."""
    authority: Path | None = None
    """Certificates of who vouches for the scheduler, in PEM."""
    certificate: Path | None = None
    """This side's own."""
    key: Path | None = None
    wait: float = WAIT_SECONDS
    """Seconds that may pass without a scheduler, or without a worker."""

    def __post_init__(self) -> None:
        """Raise ClusterError for what does not go together."""
        has_files = [each is not None for each in (self.authority, self.certificate, self.key)]
        if self.address.startswith(TLS):
            if not all(has_files) and (any(has_files) or _HERE.fullmatch(self.address) is None):
                raise ClusterError(f"{self.address}: give --tls-ca, --tls-cert and --tls-key", 2)
        elif not self.address.startswith(TCP):
            raise ClusterError(f"{self.address}: write it as tcp://HOST:PORT or tls://HOST:PORT", 2)
        elif any(has_files):
            raise ClusterError(f"{self.address}: files of TLS are for tls://", 2)

    def security(self) -> "Security | None":
        """Return how Dask's connections are made; None is without encryption. NoCertificateError."""
        if not self.address.startswith(TLS):
            return None
        from distributed import Security

        authority, certificate, key = self.authority, self.certificate, self.key
        if (here := _HERE.fullmatch(self.address)) is not None and certificate is None:
            authority = certificate = key = find_certificate(int(here[1]))
            if certificate is None:
                raise NoCertificateError("there is no certificate of an aisrv fleet up of yours")
        return Security(
            tls_ca_file=str(authority),
            tls_client_cert=str(certificate),
            tls_client_key=str(key),
            require_encryption=True,
        )


def check_dask() -> None:
    """Raise ExtraError where Dask is not installed."""
    try:
        import distributed  # noqa: F401 - whether it is there
    except ImportError as error:
        raise ExtraError(import_failure("clusters need Dask", error, "fleet")) from None


def check_cryptography() -> None:
    """Raise ExtraError where what makes certificates is not installed."""
    if find_spec("cryptography") is None:
        raise ExtraError(f"the certificate of a cluster needs cryptography: {install_command('fleet')}")
