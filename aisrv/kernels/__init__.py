"""INT8 kernels that can be swapped: the interface, backends, and the graph that executes models on them."""
