"""The AI engines as services on a Jacdac bus: the device, its bus, ways to it, and hosts on it."""
