"""Running a graph: its state, the scheduler, IOs, and its counters."""
