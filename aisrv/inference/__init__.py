"""The inference-engine layer: four calls that hide the interpreter below."""
