"""Device time: the classes of a node whose verbs take time."""
