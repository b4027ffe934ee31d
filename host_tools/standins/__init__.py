"""Stand-ins for pyusb's backend and for spidev, put into programs by `aisrv exec`."""
