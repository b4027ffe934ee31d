"""Running a graph: its state, the scheduler, IOs, and what it has done."""
