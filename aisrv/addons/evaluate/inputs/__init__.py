"""From examples to input tensors: settings in TOML, pictures, sounds and arrays."""
