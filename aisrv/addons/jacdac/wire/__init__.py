"""What crosses a Jacdac bus, as values, and its pipes and deadlines as state machines. No I/O."""
