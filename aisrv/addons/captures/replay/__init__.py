"""Replay: the host's side of a USB capture played against a device, and every answer compared."""
