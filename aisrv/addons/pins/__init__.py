"""Peripherals and stimuli on the pins of a board's tiles."""
