"""Sensors: sources of frames, their conversion to input tensors, and the task that acquires them."""
