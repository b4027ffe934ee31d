"""The GPIO outputs that an engine drives from its first output tensor."""

import click

from aisrv.protocol.commands import GPIO_COUNT, GpioMode
from aisrv.terminal.command_group import examples
from host_tools.commands.settings import HostSettings, pass_settings

_MODES = [mode.name.lower() for mode in GpioMode]


@click.group(
    invoke_without_command=True,
    epilog=examples(
        "aisrv-host gpio",
        "aisrv-host gpio enable",
        "aisrv-host gpio threshold 2 -5",
        "aisrv-host gpio mode max",
    ),
)
@click.pass_context
def gpio(context: click.Context) -> None:
    """Show or change the GPIO settings.

    While enabled, each inference sets the four outputs from output tensor 0.
    """
    if context.invoked_subcommand is None:
        _show(context.find_object(HostSettings) or HostSettings())


@gpio.command(epilog=examples("aisrv-host gpio enable"))
@pass_settings
def enable(settings: HostSettings) -> None:
    """Let inferences drive the outputs."""
    with settings.connect() as server:
        server.enable_gpio(True)
    settings.answer({"enabled": True}, lambda: None)


@gpio.command(epilog=examples("aisrv-host gpio disable"))
@pass_settings
def disable(settings: HostSettings) -> None:
    """Leave the outputs as they are."""
    with settings.connect() as server:
        server.enable_gpio(False)
    settings.answer({"enabled": False}, lambda: None)


# A negative threshold is not an option.
@gpio.command(
    context_settings={"ignore_unknown_options": True}, epilog=examples("aisrv-host gpio threshold 2 -5")
)
@click.argument("index", type=click.IntRange(0, GPIO_COUNT - 1))
@click.argument("value", type=click.IntRange(-128, 127))
@pass_settings
def threshold(settings: HostSettings, index: int, value: int) -> None:
    """Set the threshold of output INDEX to VALUE: it goes high above that."""
    with settings.connect() as server:
        server.set_gpio_threshold(index, value)
    settings.answer({"index": index, "threshold": value}, lambda: None)


@gpio.command(epilog=examples("aisrv-host gpio mode max"))
@click.argument("mode", type=click.Choice(_MODES))
@pass_settings
def mode(settings: HostSettings, mode: str) -> None:
    """Let every element above its threshold raise its output (none), or only the largest one (max)."""
    with settings.connect() as server:
        server.set_gpio_mode(GpioMode[mode.upper()])
    settings.answer({"mode": mode}, lambda: None)


def _show(settings: HostSettings) -> None:
    from host_tools.commands import report

    with settings.connect() as server:
        enabled, thresholds, mode = server.gpio_enabled(), server.gpio_thresholds(), server.gpio_mode()
    data = {"enabled": enabled, "thresholds": list(thresholds), "mode": mode.name.lower()}
    pairs = {
        "enabled": "yes" if enabled else "no",
        "thresholds": " ".join(map(str, thresholds)),
        "mode": mode.name.lower(),
    }
    settings.answer(data, lambda: report.show_pairs(pairs))
