"""The AI engines as services on a Jacdac bus: frames, control, pipes, Model Runner, Sensor Aggregator."""
