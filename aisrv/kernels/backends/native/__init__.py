"""The backend in C for x86-64: an optional library, loaded by ctypes."""
