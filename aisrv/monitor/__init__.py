"""The state of a running device: a snapshot as a value, the traffic at its ports, and a view on a terminal.

- `values`: `DeviceStatus` and its parts.
- `command_stream`, `counting`: ports that wrap those of a device and count.
- `snapshot`: takes the snapshot of a device.
- `rendering`, `compact_rendering`, `graph_rendering`, `fitting_table`, `cell_texts`: draw what fits.
- `live_view`: the drawing on a terminal. Only this module and those of the drawing need rich.
"""
