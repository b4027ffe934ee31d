"""Ways to reach a device: USB, USB/IP, SPI, a virtual one."""
