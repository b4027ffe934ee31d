"""The backend in C for every processor: an optional library, loaded by ctypes."""
