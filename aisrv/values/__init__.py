"""Values of all layers: packets, settings, text and files within bounds."""
