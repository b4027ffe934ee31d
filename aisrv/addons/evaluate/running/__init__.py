"""Where a model runs on the examples: engine processes of this machine, or devices."""
