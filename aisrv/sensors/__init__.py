"""Sensors: where frames come from, how they become input tensors, and the task that acquires them."""
