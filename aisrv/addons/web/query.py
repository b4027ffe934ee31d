"""The fields of a control's request, read as what they mean. Each raises Refused with the reason."""

from aisrv.addons.web.view import Values
from aisrv.listeners.websocket import BAD_REQUEST, Refused
from aisrv.protocol.commands import GPIO_COUNT, GpioThreshold


def whole_number(values: Values, name: str, least: int, most: int) -> int:
    """Return a field that is a whole number."""
    try:
        number = int(values.get(name, ""))
    except ValueError:
        raise Refused(BAD_REQUEST, f"{name} is a whole number from {least} to {most}") from None
    if not least <= number <= most:
        raise Refused(BAD_REQUEST, f"{name} is a whole number from {least} to {most}, not {number}")
    return number


def threshold(values: Values) -> GpioThreshold:
    """Return the output and the threshold of a request."""
    return GpioThreshold(
        whole_number(values, "output", 0, GPIO_COUNT - 1), whole_number(values, "value", -128, 127)
    )
