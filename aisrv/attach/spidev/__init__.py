"""The SPI port as a spidev file."""
