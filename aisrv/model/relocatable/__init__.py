"""Relocatable images of models as values: Arm Thumb code that runs in place from flash, or copied to RAM."""
