"""The host's side alone, as distribution aisrv-host has it. `.ci/use-host-wheel` installs and uses that."""

import pytest

from host_tools import distribution
from host_tools.distribution import is_alone
from host_tools.errors import DeviceNotFound
from host_tools.transports.virtual import VirtualDevice


def test_in_aisrv_it_is_not_alone() -> None:
    assert not is_alone()


def test_alone_it_has_no_virtual_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distribution, "find_spec", lambda _: None)
    with pytest.raises(DeviceNotFound, match="aisrv-host alone has no virtual device"):
        VirtualDevice(["never", "started"])
