"""State of a running device: a snapshot as a value, the traffic at its ports, and a terminal view."""
