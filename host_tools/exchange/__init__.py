"""The device's commands as transfers, over USB, SPI and Jacdac."""
