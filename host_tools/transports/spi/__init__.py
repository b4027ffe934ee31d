"""SPI slaves: transactions through spidev, or with an SPI link server."""
