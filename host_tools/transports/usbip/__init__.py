"""USB/IP: a client of its servers, and the devices that they export."""
