"""Models as graphs of operators that run on a kernel backend."""
