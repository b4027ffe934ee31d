"""What crosses a wire, as values: commands, USB and USB/IP messages, the SPI link. No I/O."""
