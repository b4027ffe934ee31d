"""INT8 kernels that can be swapped: the interface, backends, and what runs models on them."""
