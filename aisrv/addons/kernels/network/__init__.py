"""Models as networks of operators that run on a kernel backend."""
