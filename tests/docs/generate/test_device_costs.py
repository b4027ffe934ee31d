"""The table of costs: each constant has its unit and its basis."""

from aisrv.xcore.timed import device_costs
from docs.generate.device_costs import device_cost_table


def rows() -> dict[str, list[str]]:
    cells = (line.strip("| ").split(" | ") for line in device_cost_table().splitlines()[2:])
    return {name.strip("`"): rest for name, *rest in cells}


def test_every_constant_is_there_with_its_value() -> None:
    names = [name for name in vars(device_costs) if name.isupper()]
    assert list(rows()) == names
    assert rows()["USB_TURN_TICKS"][0] == "830 ticks"
    assert rows()["WORD_SLOTS"][0] == "4 issue slots"
    assert rows()["ISSUE_SLOTS"][0] == "5 clocks"


def test_a_basis_is_what_the_text_says() -> None:
    bases = {name: cells[-1] for name, cells in rows().items()}
    assert (bases["ROUTE_CLOCKS"], bases["SPI_CLOCK_HZ"], bases["SPI_HOLD_TICKS"]) == (
        "estimate",
        "decision",
        "fact",
    )


def test_constants_in_a_row_share_a_text() -> None:
    assert rows()["SPI_IDLE_TICKS"][1] == rows()["SPI_HOLD_TICKS"][1]
