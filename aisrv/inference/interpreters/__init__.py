"""The interpreters below the inference engine, one module each."""
