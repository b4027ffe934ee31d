"""SPI: the bus, the slave, and the buffer that stands between the slave and an engine."""
