"""Tables on a terminal: what is copied from them is not broken."""

import pytest

from host_tools.commands import report

ADDRESS = "jacdac:127.0.0.1:8082/47897373869a000f"


@pytest.mark.parametrize("width", [50, 80])
def test_an_address_stays_on_one_line_of_a_narrow_terminal(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report, "_PLAIN_WIDTH", width)
    row = (ADDRESS, "XCORE AI server", "47897373869a000f", "Model Runners: 1")
    report.show_table(("device", "product", "serial", "note"), [row])
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith(ADDRESS) for line in lines)
    assert max(map(len, lines)) <= width
