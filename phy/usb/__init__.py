"""The USB physical layer: descriptors, the bus, endpoints, endpoint 0 and the data task."""
