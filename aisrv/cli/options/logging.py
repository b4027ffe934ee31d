"""Logging of the long-running commands: to standard error, as loud as asked."""

import logging
import sys

import click

verbose_option = click.option(
    "-v", "--verbose", count=True, help="Log to standard error; twice for every detail."
)


def start_logging(verbose: int) -> None:
    """Show warnings, with `-v` the debug log and connections, with `-vv` everything."""
    levels = [logging.WARNING, logging.INFO, logging.DEBUG]
    logging.basicConfig(
        level=levels[min(verbose, 2)], stream=sys.stderr, format="%(asctime)s %(name)s: %(message)s"
    )
