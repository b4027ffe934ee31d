"""What the rest is made of: packets, settings, text and files within bounds."""
