"""A model on a data set: how right it is, how fast, and what changes with another engine or device."""
