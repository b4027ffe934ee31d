"""The device's commands as transfers, over USB and over SPI."""
