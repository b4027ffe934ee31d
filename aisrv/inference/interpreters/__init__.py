"""The interpreters behind the inference engine, one module each."""
