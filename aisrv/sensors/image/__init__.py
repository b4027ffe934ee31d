"""From the frame of a sensor to the input tensor of a model."""
