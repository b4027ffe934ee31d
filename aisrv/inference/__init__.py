"""The inference-engine layer: the calls of the firmware's API, and the interpreters below them."""
