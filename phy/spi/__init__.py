"""SPI: the bus, the slave, and the buffer between the slave and an engine."""
