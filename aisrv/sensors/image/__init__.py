"""Conversion of a sensor's frames to the input tensor of a model."""
