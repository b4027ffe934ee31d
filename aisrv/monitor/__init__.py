"""What a running device is doing: a snapshot as a value, the traffic at its ports, and a view on a terminal.

- `values`: `DeviceStatus` and its parts.
- `command_stream`, `counting_usb`, `counting_spi`: ports that wrap those of a device and count.
- `parked_tasks`: what a logical core waits for.
- `snapshot`: takes the snapshot of a device.
- `rendering`, `live_view`: draw it; the only modules that need rich.
"""
