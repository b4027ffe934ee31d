"""Ways to reach a device: USB, USB/IP, SPI, Jacdac, a virtual one."""
